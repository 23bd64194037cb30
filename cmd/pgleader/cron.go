package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"github.com/pgleader/pgleader/leader"
)

func (a *app) cronCommand() *cobra.Command {
	w := &worker{app: a}
	cmd := &cobra.Command{
		Use:   "cron FILE",
		Short: "run the jobs of a file on their schedules, each slot on one of the instances",
		Long: `cron is a resident worker that replaces the crontabs of several hosts. Start it with the
same file on each of them: every slot of every job is run by one, and by another one if
that dies. 'pgleader next FILE' shows what comes.

The file is YAML:

  time_zone: Europe/Paris          # of jobs that name none; default UTC
  jobs:
    nightly-report:
      schedule: "0 2 * * *"        # minute hour day month weekday
      time_zone: America/New_York
      command: [node, report.js]   # a list of arguments, or a line for sh -c
      dir: /srv/reports
      env: {REPORT_FORMAT: pdf}
      grace: 1h                    # how late a slot may start; default 1h
      catch_up: latest             # of several due slots run: latest, all, or skip them
      attempts: 3                  # starts of a slot that is cut off; default 3
      repeat_failed: false         # run a slot again if the command failed
      keep: 2160h                  # how long records are kept; default 90 days

SIGHUP reads the file again: a command that runs is left to its end, a job that was taken
out or changed is stopped after it. A file with an error is refused, and the old one stays.
SIGTERM and SIGINT are passed on to the commands; cron exits when they have ended. A slot
whose command fails then is run again by another instance.`,
		Example: `  pgleader cron /etc/pgleader.yaml`,
		Args:    oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := readCronFile(args[0])
			if err != nil {
				return err
			}
			return w.cron(cmd.Context(), args[0], file)
		},
	}
	w.flags(cmd)
	return cmd
}

func oneFile(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return hint(fmt.Errorf("want one file, got %d", len(args)), "%s", cmd.UseLine())
	}
	return nil
}

// A crontab is the jobs that run now.
type crontab struct {
	worker  *worker
	jobs    map[string]*running
	ended   chan error // of a job that ended by itself
	workers sync.WaitGroup

	mu   sync.Mutex
	busy map[string]*running // whose command runs, or has not been recorded, by job
}

// A running is one job's resident loop.
type running struct {
	job  *cronJob
	stop context.CancelFunc

	leaving bool // is to stop after its command
}

// leave stops a job's loop, after its command: one that fails after the loop's end would count as cut off, and be run again.
func (c *crontab) leave(name string, r *running) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.leaving = true; c.busy[name] != r {
		r.stop()
	}
}

// enter reports whether a loop may start its command.
func (c *crontab) enter(name string, r *running) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.leaving {
		r.stop()
		return false
	}
	c.busy[name] = r
	return true
}

func (c *crontab) settled(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.busy[name]; r != nil && r.leaving {
		r.stop()
	}
	delete(c.busy, name)
}

func (w *worker) cron(ctx context.Context, path string, file *cronFile) error {
	ctx, end, err := w.start(ctx)
	if err != nil {
		return err
	}
	defer end()
	w.app.stdin = nil // several commands cannot share it
	c := &crontab{worker: w, jobs: make(map[string]*running), ended: make(chan error, 1), busy: make(map[string]*running)}
	w.onSettled = c.settled
	defer c.workers.Wait()
	c.follow(ctx, file)
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-c.ended:
			w.stop()
			return err
		case <-w.reload:
			file, err := readCronFile(path)
			if err != nil {
				w.warn("", "not reloaded: %s", plainly(err))
				continue
			}
			c.follow(ctx, file)
		}
	}
}

// follow makes the running jobs those of the file.
func (c *crontab) follow(ctx context.Context, file *cronFile) {
	for name, r := range c.jobs {
		if !r.job.same(file.Jobs[name]) {
			c.worker.say(name, "taken out, or changed")
			c.leave(name, r)
			delete(c.jobs, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(file.Jobs)) {
		if c.jobs[name] == nil {
			c.begin(ctx, name, file.Jobs[name])
		}
	}
	c.worker.say("", "%d jobs", len(c.jobs))
}

// begin starts a job's loop. The elector lets it wait for a loop of the same job that has been stopped, and is at its last command.
func (c *crontab) begin(ctx context.Context, name string, j *cronJob) {
	ctx, stop := context.WithCancel(ctx)
	r := &running{job: j, stop: stop}
	c.jobs[name] = r
	c.workers.Go(func() {
		defer stop()
		err := c.worker.elector.RunSchedule(ctx, name, j.schedule, j.policy(), func(ctx context.Context, slot *leader.Slot) error {
			if !c.enter(name, r) {
				return context.Canceled
			}
			return c.worker.work(ctx, job{name: name, args: j.Command, dir: j.Dir, env: j.environment()}, slot.Term(), slot).error()
		})
		if err != nil && !errors.Is(err, context.Canceled) {
			select {
			case c.ended <- fmt.Errorf("job %q: %w", name, err):
			default:
			}
		}
	})
}

func (j *cronJob) environment() []string {
	var env []string
	for _, name := range slices.Sorted(maps.Keys(j.Env)) {
		env = append(env, name+"="+j.Env[name])
	}
	return env
}

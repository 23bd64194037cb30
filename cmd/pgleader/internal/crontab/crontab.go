// Package crontab runs the jobs of a cron file on their schedules, and follows the file when it
// changes.
package crontab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/cronfile"
	"github.com/pgleader/pgleader/cmd/pgleader/internal/explain"
	"github.com/pgleader/pgleader/cmd/pgleader/internal/words"
	"github.com/pgleader/pgleader/cmd/pgleader/internal/worker"
	"github.com/pgleader/pgleader/schedule"
)

// Run runs the jobs of a file, which was read from path, until this process is asked to end. SIGHUP
// makes it read the file again; one with an error is told, and the old jobs stay. The error is that
// of a job whose schedule ended by itself.
func Run(ctx context.Context, config worker.Config, path string, file *cronfile.File) error {
	t := &table{
		voice: config.Voice,
		loops: make(map[string]*loop),
		busy:  make(map[string]*loop),
		ended: make(chan error, 1),
	}
	config.Reload = true
	config.Stdin = nil // several commands cannot share it
	config.OnSlot = t.observe
	w, ctx, err := worker.Start(ctx, config)
	if err != nil {
		return err
	}
	t.worker = w
	defer w.Close()
	defer t.all.Wait()
	t.follow(ctx, file)
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-t.ended:
			w.Stop()
			return err
		case <-w.Reload:
			file, err := cronfile.Read(path)
			if err != nil {
				t.voice.Warn("", "not reloaded: %s", explain.Message(err))
				continue
			}
			t.follow(ctx, file)
		}
	}
}

// A table is the jobs that run now.
type table struct {
	worker *worker.Worker
	voice  *words.Voice
	loops  map[string]*loop // by job
	ended  chan error       // of a loop that ended by itself
	all    sync.WaitGroup   // of the loops

	mu   sync.Mutex
	busy map[string]*loop // whose command runs, or has not been recorded, by job
}

// A loop is one job's, from slot to slot.
type loop struct {
	job     *cronfile.Job
	stop    context.CancelFunc
	leaving bool // is to stop after its command
}

// follow makes the loops those of the file.
func (t *table) follow(ctx context.Context, file *cronfile.File) {
	for name, l := range t.loops {
		if !l.job.Same(file.Jobs[name]) {
			t.voice.Say(name, "taken out, or changed")
			t.leave(name, l)
			delete(t.loops, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(file.Jobs)) {
		if t.loops[name] == nil {
			t.begin(ctx, name, file.Jobs[name])
		}
	}
	t.voice.Say("", "%d jobs", len(t.loops))
}

// begin starts a job's loop. The elector lets it wait for a loop of the same job that has been
// stopped, and is at its last command.
func (t *table) begin(ctx context.Context, name string, job *cronfile.Job) {
	ctx, stop := context.WithCancel(ctx)
	l := &loop{job: job, stop: stop}
	t.loops[name] = l
	command := worker.Job{
		Name: name, Command: job.Command, Dir: job.Dir, Env: job.Environment(),
	}
	t.all.Go(func() {
		defer stop()
		err := t.worker.Scheduler.Run(ctx, name, job.Schedule, job.Policy,
			func(ctx context.Context, slot *schedule.Slot) error {
				if !t.enter(name, l) {
					return schedule.ErrNotStarted
				}
				return t.worker.WorkSlot(ctx, command, slot).Failure()
			})
		if err != nil && !errors.Is(err, context.Canceled) {
			select {
			case t.ended <- fmt.Errorf("job %q: %w", name, err):
			default: // another one has ended it all
			}
		}
	})
}

// enter reports whether a loop may start its command.
func (t *table) enter(name string, l *loop) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.leaving {
		l.stop()
		return false
	}
	t.busy[name] = l
	return true
}

// leave stops a job's loop, after its command: one that fails after the loop's end would count as
// cut off, and be run again.
func (t *table) leave(name string, l *loop) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.leaving = true; t.busy[name] != l {
		l.stop()
	}
}

// observe sees when nothing is left to record about a command.
func (t *table) observe(event schedule.Event) {
	if event.Kind == schedule.EventFinished {
		t.settled(event.Job)
	}
}

// settled stops the loop whose command is on record, if it was waited for.
func (t *table) settled(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.busy[name]; l != nil && l.leaving {
		l.stop()
	}
	delete(t.busy, name)
}

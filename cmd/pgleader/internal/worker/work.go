package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/words"
	"github.com/pgleader/pgleader/internal/child"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

// A Job is a command and how it is run.
type Job struct {
	Name    string
	Command []string // the program and its arguments
	Dir     string   // where it runs, "" for where pgleader does
	Env     []string // in addition to pgleader's own
}

// A Result is how a command ended. The zero Result is that of one that did its work.
type Result struct {
	Code int   // its exit status, 128+n for signal n
	Lost bool  // it was ended because the lease was lost
	Err  error // it could not be started or watched
}

// Failure is nil if the command did its work.
func (r Result) Failure() error {
	switch {
	case r.Err != nil:
		return r.Err
	case r.Lost:
		return errors.New("the lease was lost, and the command was ended")
	case r.Code > 128 && r.Code <= 128+64: // there are no more signals; 255 is what ssh exits with
		return fmt.Errorf("the command was ended by signal %d", r.Code-128)
	case r.Code != 0:
		return fmt.Errorf("the command exited with status %d", r.Code)
	}
	return nil
}

// Work runs the job's command under a term, to its end. All that it started is gone when Work
// returns.
func (w *Worker) Work(ctx context.Context, job Job, term *leader.Term) Result {
	return w.work(ctx, job, term, nil)
}

// WorkSlot is Work for a slot.
func (w *Worker) WorkSlot(ctx context.Context, job Job, slot *schedule.Slot) Result {
	if ctx.Err() != nil {
		return Result{Err: fmt.Errorf("%w: %w", schedule.ErrNotStarted, ctx.Err())}
	}
	return w.work(ctx, job, slot.Term(), []string{
		"PGLEADER_SLOT=" + words.Instant(slot.Time()),
		fmt.Sprintf("PGLEADER_ATTEMPT=%d", slot.Attempt()),
	})
}

// A tenure is what work needs of a term.
type tenure interface {
	Context() context.Context
	Token() int64
	Until() time.Time // when the command has to be asked to end
}

func (w *Worker) work(ctx context.Context, job Job, term tenure, about []string) Result {
	if ctx.Err() != nil {
		return Result{Err: ctx.Err()}
	}
	c, err := child.Start(child.Command{
		Args:   job.Command,
		Env:    append(w.environment(job, term), about...),
		Dir:    job.Dir,
		Grace:  w.config.StopWithin,
		Stdin:  w.config.Stdin,
		Stdout: w.config.Stdout,
		Stderr: w.config.Stderr,
	}, term.Until())
	if err != nil {
		return Result{Err: err}
	}
	w.enter(c)
	defer w.leave(c)
	extend := time.NewTicker(w.config.TTL / 20)
	defer extend.Stop()
	over := term.Context().Done()
	for {
		select {
		case <-c.Done():
			r := c.Result()
			return Result{Code: r.ExitCode, Lost: over == nil || r.Expired, Err: r.Err}
		case <-extend.C:
			if over != nil {
				c.Extend(term.Until())
			}
		case <-over:
			over = nil
			c.Stop()
		}
	}
}

// environment is pgleader's own, with what the command may want to know, and without what concerns
// pgleader alone.
func (w *Worker) environment(job Job, term tenure) []string {
	var env []string
	for _, entry := range os.Environ() {
		if !private(entry) {
			env = append(env, entry)
		}
	}
	env = append(env, job.Env...)
	return append(env,
		"PGLEADER_JOB="+job.Name,
		"PGLEADER_HOLDER="+w.Elector.Holder(),
		fmt.Sprintf("PGLEADER_TOKEN=%d", term.Token()))
}

// private reports whether an entry of the environment concerns pgleader alone. A command that took
// it up would speak to systemd in its place, or see the lease or the slot of a pgleader that this
// one runs under.
func private(entry string) bool {
	for _, name := range []string{
		"NOTIFY_SOCKET=", "WATCHDOG_USEC=", "WATCHDOG_PID=",
		"PGLEADER_JOB=", "PGLEADER_HOLDER=", "PGLEADER_TOKEN=",
		"PGLEADER_SLOT=", "PGLEADER_ATTEMPT=",
	} {
		if strings.HasPrefix(entry, name) {
			return true
		}
	}
	return false
}

package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/explain"
	"github.com/pgleader/pgleader/cmd/pgleader/internal/words"
	"github.com/pgleader/pgleader/leader"
)

// Run waits until this process leads the job, and runs its command while it does. After a loss it
// waits again, unless once is set. The Result is that of the last command; it is zero if this
// process was asked to end while it waited.
func Run(ctx context.Context, config Config, job Job, once bool) (Result, error) {
	w, ctx, err := Start(ctx, config)
	if err != nil {
		return Result{}, err
	}
	defer w.Close()
	var last Result
	ran := false
	err = w.Elector.Run(ctx, job.Name, func(ctx context.Context, term *leader.Term) error {
		if ctx.Err() != nil { // nothing was run, so this is still an end while waiting
			return ctx.Err()
		}
		last, ran = w.Work(ctx, job, term), true
		if last.Lost && once {
			w.Stop()
		}
		return last.Failure()
	})
	switch {
	case errors.Is(err, context.Canceled) && w.Asked() != nil: // while it waited, perhaps again
		return Result{}, nil
	case ran && (!last.Lost || once || w.Asked() != nil):
		return last, nil
	}
	return Result{}, err
}

// Try runs the job's command if this process can lead the job now. Led is false if another one
// does, which was told.
func Try(ctx context.Context, config Config, job Job) (r Result, led bool, err error) {
	var held leader.Event
	config.OnEvent = func(event leader.Event) {
		if event.Kind == leader.Skipped {
			held = event
		}
	}
	w, ctx, err := Start(ctx, config)
	if err != nil {
		return Result{}, false, err
	}
	defer w.Close()
	term, led, err := w.Elector.TryAcquire(ctx, job.Name)
	switch sig := w.Asked(); {
	case sig != nil && errors.Is(err, context.Canceled):
		return Result{}, false, fmt.Errorf("%s: asked to end (%v) before the command was started",
			words.Name(job.Name), sig)
	case err != nil:
		return Result{}, false, err
	case !led:
		config.Voice.Say(job.Name, "not run, %s leads under token %d",
			words.Name(held.Holder), held.Token)
		return Result{}, false, nil
	}
	r = w.Work(ctx, job, term)
	if err := term.Resign(); err != nil {
		config.Voice.Warn(job.Name, "could not release the lease, it expires within %v: %s",
			config.TTL, explain.Message(err))
	}
	return r, true, nil
}

package worker

import (
	"context"
	"errors"
	"fmt"

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
	w, ctx, err := Start(ctx, config)
	if err != nil {
		return Result{}, false, err
	}
	defer w.Close()
	work := func(ctx context.Context, term *leader.Term) error {
		r = w.Work(ctx, job, term)
		return r.Failure()
	}
	led, held, err := w.Elector.TryRun(ctx, job.Name, work)
	switch sig := w.Asked(); {
	case led:
		return r, true, nil // which says all
	case sig != nil && errors.Is(err, context.Canceled):
		return Result{}, false, fmt.Errorf("%s: asked to end (%v) before the command was started",
			words.Name(job.Name), sig)
	case err != nil:
		return Result{}, false, err
	}
	config.Voice.Say(job.Name, "not run, %s leads under token %d", words.Name(held.Holder), held.Token)
	return Result{}, false, nil
}

package slotrun

import (
	"context"
	"time"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/explain"
)

// retryEvery is the pause between two tries.
const retryEvery = time.Second

// patiently tries again while the database cannot be reached, but not once the command has run: a
// server that restarts at 02:00 must not cost the night.
func (r *run) patiently(ctx context.Context, try func() error) error {
	deadline := time.Now().Add(r.RetryFor)
	for said := false; ; said = true {
		err := try()
		left := time.Until(deadline)
		if err == nil || r.ran || !explain.Passes(err) || ctx.Err() != nil || left <= 0 {
			return err
		}
		if !said {
			r.voice.Warn(r.Job.Name, "%s; trying again for %v", explain.Message(err), r.RetryFor)
		}
		if err := pause(ctx, min(retryEvery, left)); err != nil {
			return err
		}
	}
}

// pause waits, or returns the context's error when that ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

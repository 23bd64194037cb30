package leader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/internal/pgcall"
)

// Resign gives the term up: it ends the term's context at once, then the lease in the database, so
// that a successor need not wait for its expiry. Call it when the work has stopped. It takes no
// context, for a cancelled one would leave the lease behind; it is bounded by the lease's own life,
// at most the TTL.
//
// When it returns nil the term holds nothing any more, also if it had been lost before. On an error
// the lease may live on until its TTL is over; calling again tries again.
func (t *Term) Resign() error {
	t.resigning.Lock()
	defer t.resigning.Unlock()
	w := t.watchdog
	ended := w.end(t, errResigned)
	if t.released || errors.Is(context.Cause(t.ctx), errTaken) {
		return nil
	}
	_, end := w.trustOf(t)
	err := t.release(end)
	t.released = err == nil
	if ended {
		w.emit(Event{Kind: EventResigned, Job: t.job, Holder: w.holder, Token: t.token, Err: err})
	}
	if err != nil {
		return fmt.Errorf("leader: resign %q: %w", t.job, err)
	}
	return nil
}

// release ends the lease in the database. It tries until end, by when the lease should be over by
// itself. It goes through no gate: nothing may hold up the successor.
func (t *Term) release(end time.Time) error {
	w := t.watchdog
	var failure error
	for {
		left := time.Until(end)
		if left <= 0 {
			return failure
		}
		ctx, cancel := context.WithTimeout(context.Background(), min(left, w.callLimit))
		_, err := pgcall.Call(ctx, w.calls, func(ctx context.Context, q db.Querier) (int64, error) {
			return q.ReleaseLease(ctx, db.ReleaseLeaseParams{
				JobName: t.job,
				Holder:  w.holder,
				Token:   t.token,
			})
		})
		cancel()
		if err == nil || pgcall.Permanent(err) {
			return err
		}
		if failure == nil {
			t.reportUnreleased(err)
		}
		failure = err
		time.Sleep(min(w.retryPause, max(0, time.Until(end))))
	}
}

func (t *Term) reportUnreleased(err error) {
	w := t.watchdog
	w.emit(Event{Kind: EventResignFailed, Job: t.job, Holder: w.holder, Token: t.token, Err: err})
}

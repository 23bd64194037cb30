package leader

import (
	"context"
	"fmt"
	"time"

	"github.com/pgleader/pgleader/db"
)

// A lease whose last renewal lies in the future of the database's clock shows that the clock was set back. A holder that lives mends that
// by its next renewal. If there is none, the lease would stay alive for as long as the clock was set back by. A candidate
// that has seen it unchanged for as long as it was granted for, by its own monotonic clock, knows that it is over.

// A standstill is such a lease, and since when this process has seen it unchanged.
type standstill struct {
	token   int64
	renewed time.Time
	since   time.Time
}

// over reports whether the lease, which was read after asked and before answered, stands still for longer than its holder may believe in it.
func (s *standstill) over(l Lease, ttl time.Duration, asked, answered time.Time) bool {
	if s.token == l.Token && s.renewed.Equal(l.RenewedAt) {
		return l.Live() && asked.Sub(s.since) > l.granted(ttl)
	}
	*s = standstill{}
	if l.renewedAhead() > 0 {
		*s = standstill{token: l.Token, renewed: l.RenewedAt, since: answered}
	}
	return false
}

// standsStill is over for a lease that was read just now, for the job of the seat.
func (e *Elector) standsStill(s *seat, l Lease, asked time.Time) bool {
	answered := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	return s.still.over(l, e.ttl, asked, answered)
}

// renewedAhead is by how much the last renewal lies in the future, by the database's clock.
func (l Lease) renewedAhead() time.Duration { return l.RenewedAt.Sub(l.ExpiresAt.Add(-l.Left)) }

// granted is for how long the lease was granted, or ttl if that is longer: a released lease was cut.
func (l Lease) granted(ttl time.Duration) time.Duration {
	return max(ttl, l.ExpiresAt.Sub(l.RenewedAt))
}

// freeIn is after how long the lease should be free unless it is renewed.
func (e *Elector) freeIn(l Lease) time.Duration {
	if l.renewedAhead() > 0 {
		return min(l.Left, l.granted(e.ttl))
	}
	return l.Left
}

// freeStill ends a lease that stands still, unless somebody has renewed it meanwhile, or has its row locked.
func (e *Elector) freeStill(ctx context.Context, l Lease) (freed bool, err error) {
	n, err := ask(ctx, e, func(ctx context.Context, q db.Querier) (int64, error) {
		return q.FreeLease(ctx, db.FreeLeaseParams{JobName: l.Job, Token: l.Token, RenewedAt: l.RenewedAt})
	})
	if err != nil {
		return false, fmt.Errorf("end a lease that was last renewed at %s, before the database's clock was set back: %w",
			l.RenewedAt.UTC().Format(time.RFC3339), err)
	}
	if n == 0 {
		return false, nil
	}
	e.emit(Event{Kind: ClockSetBack, Job: l.Job, Holder: l.Holder, Token: l.Token, Err: fmt.Errorf(
		"leader: the lease was not renewed for %v, and would have had %v left: the database's clock was set back, "+
			"or a server was promoted whose clock is behind", l.granted(e.ttl).Round(time.Millisecond), l.Left.Round(time.Millisecond))})
	return true, nil
}

package leader

import (
	"context"
	"fmt"
	"time"

	"github.com/pgleader/pgleader/db"
)

// A lease whose last renewal lies in the future of the database's clock tells that the clock was set back. A holder that lives mends it
// by its next renewal. If there is none, the lease would stay alive for as long as the clock was set back by. A candidate
// that has seen it unchanged for the TTL, by its own monotonic clock, knows that it is over.

// A standstill is such a lease, and since when a candidate sees it unchanged.
type standstill struct {
	token   int64
	renewed time.Time
	since   time.Time
}

// outlasts reports whether the lease that was seen stands still for longer than its holder may believe in it: its own TTL, or the
// candidate's if that is longer.
func (s *standstill) outlasts(n news, ttl time.Duration) bool {
	l := n.lease
	if l.renewedAhead() <= 0 {
		*s = standstill{}
		return false
	}
	if s.token != l.Token || !s.renewed.Equal(l.RenewedAt) {
		*s = standstill{token: l.Token, renewed: l.RenewedAt, since: n.answered}
		return false
	}
	return n.asked.Sub(s.since) > l.length(ttl)
}

// renewedAhead is by how much the last renewal lies in the future, by the database's clock.
func (l Lease) renewedAhead() time.Duration { return l.RenewedAt.Sub(l.ExpiresAt.Add(-l.Left)) }

// length is for how long the lease was granted, at least ttl. A released one was cut.
func (l Lease) length(ttl time.Duration) time.Duration { return max(ttl, l.ExpiresAt.Sub(l.RenewedAt)) }

// freeIn is after how long the lease should be free unless it is renewed.
func (e *Elector) freeIn(l Lease) time.Duration {
	if l.renewedAhead() > 0 {
		return min(l.Left, l.length(e.ttl))
	}
	return l.Left
}

// freeStill ends a lease that stands still. A failure is left to the next look.
func (e *Elector) freeStill(ctx context.Context, l Lease) bool {
	n, err := ask(ctx, e, func(ctx context.Context, q db.Querier) (int64, error) {
		return q.FreeLease(ctx, db.FreeLeaseParams{JobName: l.Job, Token: l.Token, RenewedAt: l.RenewedAt})
	})
	if err != nil || n == 0 {
		return false
	}
	e.emit(Event{Kind: ClockSetBack, Job: l.Job, Holder: l.Holder, Token: l.Token, Err: fmt.Errorf(
		"leader: the lease was last renewed %v in the future, and not again for %v: the database's clock was set back",
		l.renewedAhead().Round(time.Millisecond), l.length(e.ttl).Round(time.Millisecond))})
	return true
}

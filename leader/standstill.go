package leader

import (
	"sync"
	"time"
)

// A lease whose last renewal lies in the future of the database's clock shows that the clock was
// set back. A holder that lives mends that by its next renewal. If there is none, the lease would
// stay alive for as long as the clock was set back by. A candidate that has seen it unchanged for
// as long as it was granted for, by its own monotonic clock, knows that it is over.

// Standstills remember the leases of that kind that this process has seen, also from one short
// campaign to the next.
type standstills struct {
	ttl time.Duration

	mu    sync.Mutex
	byJob map[string]standstill
}

func newStandstills(ttl time.Duration) *standstills {
	return &standstills{ttl: ttl, byJob: make(map[string]standstill)}
}

// A standstill is one renewal of such a lease, and since when this process has seen it unchanged.
type standstill struct {
	token   int64
	renewed time.Time
	since   time.Time
}

// over reports whether the lease, which was read after asked, stands still for longer than its
// holder may believe in it.
func (s *standstills) over(l Lease, asked time.Time) bool {
	answered := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	seen, ok := s.byJob[l.Job]
	if ok && seen.token == l.Token && seen.renewed.Equal(l.RenewedAt) {
		return l.Live() && asked.Sub(seen.since) > l.granted(s.ttl)
	}
	if l.renewedAhead() > 0 {
		s.byJob[l.Job] = standstill{token: l.Token, renewed: l.RenewedAt, since: answered}
	} else if ok {
		delete(s.byJob, l.Job)
	}
	return false
}

// freeIn is after how long the lease should be free unless it is renewed.
func (s *standstills) freeIn(l Lease) time.Duration {
	if l.renewedAhead() > 0 {
		return min(l.Left, l.granted(s.ttl))
	}
	return l.Left
}

// renewedAhead is by how much the last renewal lies in the future, by the database's clock.
func (l Lease) renewedAhead() time.Duration { return l.RenewedAt.Sub(l.ExpiresAt.Add(-l.Left)) }

// granted is for how long the lease was granted, or ttl if that is longer: a released lease was
// cut.
func (l Lease) granted(ttl time.Duration) time.Duration {
	return max(ttl, l.ExpiresAt.Sub(l.RenewedAt))
}

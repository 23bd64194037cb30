package leader

import "time"

// An instant is a moment by both clocks of the machine. The monotonic clock can't be set, but stands still while the machine is
// suspended; the wall clock goes on, but can be set. A lease goes on by the database's clock meanwhile, so whichever says
// that time is over is believed.
type instant struct{ mono, wall time.Time }

func (e *Elector) now() instant { return instant{mono: time.Now(), wall: e.wall()} }

func (i instant) add(d time.Duration) instant { return instant{i.mono.Add(d), i.wall.Add(d)} }

// reached reports whether i has come by either clock.
func (i instant) reached(now instant) bool {
	return !now.mono.Before(i.mono) || !now.wall.Before(i.wall)
}

// expired reports whether the term may not be trusted any more.
func (e *Elector) expired(t *Term) bool {
	now := e.now()
	e.mu.Lock()
	defer e.mu.Unlock()
	return t.trust.reached(now)
}

// watch makes the watchdog look after t, a live term. The caller holds e.mu.
func (e *Elector) watch(t *Term) {
	soon := time.Until(t.trust.mono) < e.wallCheck
	if e.watching && !soon {
		return
	}
	e.watching = true
	next := e.wallCheck
	if soon {
		next = 0 // distrust works out when to come back
	}
	if e.watchdog == nil {
		e.watchdog = time.AfterFunc(next, e.distrust)
	} else {
		e.watchdog.Reset(next)
	}
}

// distrust ends every term that was not renewed in time. It runs on a timer and waits for nothing: a query, a driver or a
// shutdown step that hangs can't prolong a term. It comes back at the earliest end of trust, and no later than the next
// comparison with the wall clock, which no timer follows.
func (e *Elector) distrust() {
	now := e.now()
	next := e.wallCheck
	var over []*Term
	e.mu.Lock()
	for t := range e.terms {
		if t.trust.reached(now) {
			over = append(over, t)
		} else {
			next = min(next, t.trust.mono.Sub(now.mono))
		}
	}
	e.watching = len(over) < len(e.terms)
	if e.watching {
		e.watchdog.Reset(next)
	}
	e.mu.Unlock()
	e.endAll(over, errTrustEnded)
}

package leader

import (
	"sync"
	"time"
)

// A watchdog keeps the live terms of a process, and ends each when its trust is over. Nothing in it
// waits: no query, driver, logger or callback that hangs can prolong a term.
type watchdog struct {
	*core
	emptied chan struct{} // capacity 1: the last live term has ended

	mu    sync.Mutex
	terms map[*Term]struct{} // the live ones; this also guards their trust and leaseEnd
	timer *time.Timer
	armed bool // whether timer is set; it is while there are live terms
}

func newWatchdog(c *core) *watchdog {
	return &watchdog{core: c, emptied: make(chan struct{}, 1), terms: make(map[*Term]struct{})}
}

// add makes a term live.
func (w *watchdog) add(t *Term) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.terms[t] = struct{}{}
	next, soon := w.wallCheck, time.Until(t.trust.mono) < w.wallCheck
	if soon {
		next = 0 // distrust works out when to come back
	}
	if w.armed && !soon {
		return
	}
	w.armed = true
	if w.timer == nil {
		w.timer = time.AfterFunc(next, w.distrust)
	} else {
		w.timer.Reset(next)
	}
}

// distrust ends every term that was not renewed in time. It runs on a timer of its own, and comes
// back at the earliest end of trust, and no later than the next comparison with the wall clock,
// which no timer follows.
func (w *watchdog) distrust() {
	now := w.now()
	next := w.wallCheck
	var over []*Term
	w.mu.Lock()
	for t := range w.terms {
		if t.trust.reached(now) {
			over = append(over, t)
		} else {
			next = min(next, t.trust.mono.Sub(now.mono))
		}
	}
	w.armed = len(over) < len(w.terms)
	if w.armed {
		w.timer.Reset(next)
	}
	w.mu.Unlock()
	w.lose(errTrustEnded, over...)
}

// expired reports whether the term may not be trusted any more.
func (w *watchdog) expired(t *Term) bool {
	now := w.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	return t.trust.reached(now)
}

// end ends a live term with the given cause, and reports whether it was live. Whoever learns first
// that a term is over ends it here, before any clean-up.
func (w *watchdog) end(t *Term, cause error) bool {
	live := w.remove(t, cause)
	if live {
		t.vacate()
	}
	return live
}

func (w *watchdog) remove(t *Term, cause error) (live bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, live = w.terms[t]; live {
		delete(w.terms, t)
		if len(w.terms) == 0 {
			nudge(w.emptied)
		}
	}
	t.cancel(cause) // under the lock, or another end's cause could come first
	return live
}

// lose ends terms against their holder's will. It ends every one before it reports the first: a
// report runs the user's code, which may take its time.
func (w *watchdog) lose(cause error, terms ...*Term) {
	lost := terms[:0]
	for _, t := range terms {
		if w.end(t, cause) {
			lost = append(lost, t)
		}
	}
	for _, t := range lost {
		w.emit(Event{Kind: EventLost, Job: t.job, Holder: w.holder, Token: t.token, Err: cause})
	}
}

// live returns the live terms, and when the trust in them begins and ceases to run out.
func (w *watchdog) live() (terms []*Term, first, last time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	terms = make([]*Term, 0, len(w.terms))
	for t := range w.terms {
		terms = append(terms, t)
		if first.IsZero() || t.trust.mono.Before(first) {
			first = t.trust.mono
		}
		if t.trust.mono.After(last) {
			last = t.trust.mono
		}
	}
	return terms, first, last
}

func (w *watchdog) isLive(t *Term) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, live := w.terms[t]
	return live
}

// extend trusts terms until a later instant, after a renewal.
func (w *watchdog) extend(terms []*Term, trust instant, leaseEnd time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range terms {
		t.trust, t.leaseEnd = trust, leaseEnd
	}
}

// suspect notes that leases may live until a later moment, after a renewal whose answer is lost.
func (w *watchdog) suspect(terms []*Term, leaseEnd time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range terms {
		t.leaseEnd = leaseEnd
	}
}

// trustOf returns until when the term may be trusted, and when its lease is over at the latest.
func (w *watchdog) trustOf(t *Term) (trust instant, leaseEnd time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return t.trust, t.leaseEnd
}

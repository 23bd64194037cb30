package leader

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/internal/pgcall"
)

// A renewal renews all live terms of a process with one statement per RenewEvery. Its goroutine
// lives while there are live terms.
type renewal struct {
	*core
	watchdog *watchdog
	sooner   chan struct{} // capacity 1: a term came that is due earlier than next

	mu      sync.Mutex
	running bool
	next    time.Time // when the next statement is due
}

func newRenewal(c *core, w *watchdog) *renewal {
	return &renewal{core: c, watchdog: w, sooner: make(chan struct{}, 1)}
}

// follow renews a term that has become live.
func (r *renewal) follow(t *Term) {
	trust, _ := r.watchdog.trustOf(t)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !r.running:
		r.running = true
		go r.loop()
	case r.due(trust.mono).Before(r.next):
		nudge(r.sooner)
	}
}

// due is when to renew a term that is trusted until then: RenewEvery after the request that the
// trust counts from, be it a renewal or the claim. A claim that was answered late must not push the
// first renewal out of the window.
func (r *renewal) due(trusted time.Time) time.Time {
	return trusted.Add(r.margin - r.ttl + r.renewEvery)
}

func (r *renewal) loop() {
	timer := time.NewTimer(r.renewEvery)
	defer timer.Stop()
	var pause time.Time // no renewal before, after one that failed
	for r.plan(timer, pause) {
		select {
		case <-timer.C:
		case <-r.sooner:
			continue
		case <-r.watchdog.emptied:
			continue
		}
		if r.renew() != nil {
			pause = time.Now().Add(r.retryPause/2 + rand.N(r.retryPause))
		}
	}
}

// plan sets the timer for the next renewal. It reports false, and ends the loop, if no term is
// live.
func (r *renewal) plan(timer *time.Timer, pause time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	terms, first, _ := r.watchdog.live()
	if len(terms) == 0 {
		r.running = false
		return false
	}
	r.next = time.Now().Add(r.renewEvery)
	if due := r.due(first); due.Before(r.next) {
		r.next = due
	}
	if r.next.Before(pause) {
		r.next = pause
	}
	timer.Reset(time.Until(r.next))
	return true
}

// renew tries once to renew every live term. An error means that some terms must be asked for
// again, soon.
func (r *renewal) renew() error {
	terms, _, last := r.watchdog.live()
	sent := r.now()
	if len(terms) == 0 {
		return nil
	}
	// An answer that comes after the end of trust is worth nothing.
	ctx, cancel := context.WithTimeout(context.Background(), min(r.callLimit, last.Sub(sent.mono)))
	defer cancel()
	found, err := pgcall.Call(ctx, r.calls, func(ctx context.Context, q db.Querier) (outcomes, error) {
		if len(terms) == 1 {
			return r.renewOne(ctx, q, terms[0])
		}
		return r.renewMany(ctx, q, terms)
	})
	if err != nil {
		if pgcall.Undecided(err) { // the leases may have been prolonged all the same
			r.watchdog.suspect(terms, time.Now().Add(r.ttl))
		}
		err = fmt.Errorf("leader: renew %s: %w", leasesOf(len(terms), terms[0].job), err)
		return r.failed(terms, err)
	}
	return r.settle(terms, found, r.trust(sent))
}

// settle acts on what a renewal meant for each term.
func (r *renewal) settle(terms []*Term, found outcomes, trust instant) error {
	var renewed, locked, lost []*Term
	for _, t := range terms {
		switch found[t.job] {
		case rowRenewed:
			renewed = append(renewed, t)
		case rowLocked:
			if r.watchdog.isLive(t) { // else it is our own release that has the row
				locked = append(locked, t)
			}
		case rowGone:
			lost = append(lost, t)
		}
	}
	r.watchdog.extend(renewed, trust, time.Now().Add(r.ttl))
	r.watchdog.lose(errTaken, lost...)
	if len(locked) == 0 {
		return nil
	}
	return r.failed(locked, fmt.Errorf(
		"leader: renew %s: another transaction has %d locked, among them that of %q",
		leasesOf(len(terms), terms[0].job), len(locked), locked[0].job))
}

func (r *renewal) failed(terms []*Term, err error) error {
	event := Event{Kind: EventRenewFailed, Leases: len(terms), Holder: r.holder, Err: err}
	if len(terms) == 1 {
		event.Job, event.Token = terms[0].job, terms[0].token
	}
	r.emit(event)
	return err
}

// An outcome is what a renewal meant for one term.
type outcome int

const (
	rowGone   outcome = iota // it is not ours any more
	rowLocked                // somebody has locked it: ask again
	rowRenewed
)

// outcomes are by job. A job that is missing is rowGone.
type outcomes map[string]outcome

// renewOne is the common case, one update by primary key.
func (r *renewal) renewOne(ctx context.Context, q db.Querier, t *Term) (outcomes, error) {
	n, err := q.RenewLease(ctx, db.RenewLeaseParams{
		JobName:    t.job,
		Holder:     r.holder,
		Token:      t.token,
		TTLSeconds: r.ttl.Seconds(),
	})
	if n == 0 {
		return nil, err
	}
	return outcomes{t.job: rowRenewed}, err
}

// renewMany skips locked rows, so that one lock in somebody's session can't make all terms of the
// process wait.
func (r *renewal) renewMany(ctx context.Context, q db.Querier, terms []*Term) (outcomes, error) {
	type wanted struct {
		Job   string `json:"job_name"`
		Token int64  `json:"token"`
	}
	list := make([]wanted, len(terms))
	for i, t := range terms {
		list[i] = wanted{t.job, t.token}
	}
	text, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	rows, err := q.RenewLeases(ctx, db.RenewLeasesParams{
		Terms:      string(text),
		Holder:     r.holder,
		TTLSeconds: r.ttl.Seconds(),
	})
	if err != nil {
		return nil, err
	}
	found := make(outcomes, len(rows))
	for _, row := range rows {
		found[row.JobName] = rowLocked
		if row.Renewed {
			found[row.JobName] = rowRenewed
		}
	}
	return found, nil
}

// leasesOf names n leases in a message.
func leasesOf(n int, first string) string {
	if n == 1 {
		return fmt.Sprintf("the lease of %q", first)
	}
	return fmt.Sprintf("%d leases", n)
}

package leader

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pgleader/pgleader/db"
)

// renewLoop renews all live terms with one statement per RenewEvery. It ends when there are none left; install starts it again.
func (e *Elector) renewLoop() {
	timer := time.NewTimer(e.renewEvery)
	defer timer.Stop()
	var pause time.Time // no renewal before, after one that failed
	for {
		e.mu.Lock()
		if len(e.terms) == 0 {
			e.renewing = false
			e.mu.Unlock()
			return
		}
		e.renewAt = time.Now().Add(e.renewEvery)
		for t := range e.terms {
			if due := e.renewDue(t); due.Before(e.renewAt) {
				e.renewAt = due
			}
		}
		if e.renewAt.Before(pause) {
			e.renewAt = pause
		}
		timer.Reset(time.Until(e.renewAt))
		e.mu.Unlock()
		select {
		case <-timer.C:
		case <-e.renewNudge:
			continue
		}
		if e.renew() != nil {
			pause = time.Now().Add(e.retryPause/2 + rand.N(e.retryPause))
		}
	}
}

// renewDue is RenewEvery after the request that the term's trust counts from, be it a renewal or the claim: a claim that was
// answered late must not push the first renewal out of the window.
func (e *Elector) renewDue(t *Term) time.Time {
	return t.trust.mono.Add(e.margin - e.ttl + e.renewEvery)
}

// An outcome is what a renewal meant for one term.
type outcome int

const (
	over   outcome = iota // the row is not ours any more
	locked                // somebody has locked the row: ask again
	renewed
)

// renew tries once to renew every live term. An error means that some terms must be asked for again, soon.
func (e *Elector) renew() error {
	e.mu.Lock()
	terms := make([]*Term, 0, len(e.terms))
	var trusted time.Time
	for t := range e.terms {
		terms = append(terms, t)
		if t.trust.mono.After(trusted) {
			trusted = t.trust.mono
		}
	}
	e.mu.Unlock()
	sent := e.now()
	if len(terms) == 0 {
		return nil
	}

	// An answer that comes after the end of trust is worth nothing.
	ctx, cancel := context.WithTimeout(context.Background(), min(e.callLimit, trusted.Sub(sent.mono)))
	defer cancel()
	outcomes, err := call(ctx, e.connect, nil, func(ctx context.Context, q db.Querier) (func(*Term) outcome, error) {
		if len(terms) == 1 {
			return e.renewOne(ctx, q, terms[0])
		}
		return e.renewMany(ctx, q, terms)
	})
	if err != nil {
		if undecided(err) { // the lease may have been prolonged all the same
			e.mu.Lock()
			for _, t := range terms {
				t.leaseEnd = time.Now().Add(e.ttl)
			}
			e.mu.Unlock()
		}
		e.emit(Event{Kind: RenewFailed, Holder: e.holder, Err: fmt.Errorf("leader: renew %s: %w", leasesOf(len(terms), terms[0].job), err)})
		return err
	}

	trust, leaseEnd := sent.add(e.ttl-e.margin), time.Now().Add(e.ttl)
	var lost []*Term
	var waiting []string
	e.mu.Lock()
	for _, t := range terms {
		switch outcomes(t) {
		case renewed:
			t.trust, t.leaseEnd = trust, leaseEnd
		case locked:
			if _, live := e.terms[t]; live { // else it is our own release that has the row
				waiting = append(waiting, t.job)
			}
		case over:
			lost = append(lost, t)
		}
	}
	e.mu.Unlock()
	e.endAll(lost, errTaken)
	if len(waiting) > 0 {
		err = fmt.Errorf("leader: renew %s: %d locked by another transaction, among them that of %q", leasesOf(len(terms), terms[0].job), len(waiting), waiting[0])
		e.emit(Event{Kind: RenewFailed, Holder: e.holder, Err: err})
	}
	return err
}

// renewOne is the common case, one update by primary key.
func (e *Elector) renewOne(ctx context.Context, q db.Querier, t *Term) (func(*Term) outcome, error) {
	n, err := q.RenewLease(ctx, db.RenewLeaseParams{
		JobName:    t.job,
		Holder:     e.holder,
		Token:      t.token,
		TTLSeconds: e.ttl.Seconds(),
	})
	return func(*Term) outcome {
		if n == 0 {
			return over
		}
		return renewed
	}, err
}

// renewMany skips locked rows, so that one lock in somebody's session can't make all terms of the process wait.
func (e *Elector) renewMany(ctx context.Context, q db.Querier, terms []*Term) (func(*Term) outcome, error) {
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
	rows, err := q.RenewLeases(ctx, db.RenewLeasesParams{Terms: string(text), Holder: e.holder, TTLSeconds: e.ttl.Seconds()})
	if err != nil {
		return nil, err
	}
	outcomes := make(map[string]outcome, len(rows))
	for _, row := range rows {
		outcomes[row.JobName] = locked
		if row.Renewed {
			outcomes[row.JobName] = renewed
		}
	}
	return func(t *Term) outcome { return outcomes[t.job] }, nil
}

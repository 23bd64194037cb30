package leader

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pgleader/pgleader/db"
)

// A waiter is one call that waits for news about a job's lease. All waiters of a process share one loop, and one statement
// per look.
type waiter struct {
	job  string
	news chan news // capacity 1: a newer one replaces one that was not fetched
	due  time.Time // when the lease is free unless it was renewed meanwhile; zero if not known
}

const maxSpread = 8 * time.Millisecond

type news struct {
	lease Lease
	err   error
	over  bool // the lease stands still, and nobody leads by it
}

// Wake makes this elector's candidates for the job look at its lease now, instead of at their next turn; "" means every
// job. It is for a notification that the lease is free, and only a hint: all is right without it. It never blocks.
func (e *Elector) Wake(job string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.woken++
	for w := range e.waiters {
		if job == "" || w.job == job {
			nudge(e.lookNow)
			return
		}
	}
}

// await begins to wait for news about the job. The caller stops with forget.
func (e *Elector) await(job string) *waiter {
	w := &waiter{job: job, news: make(chan news, 1)}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiters[w] = struct{}{}
	if !e.looking {
		e.looking = true
		go e.lookLoop()
	}
	return w
}

// expect tells the loop what the waiter has just learned, so that it looks when the lease should be free; or at once, if Wake was called since
// woken was read, for what the waiter learned may be older.
func (e *Elector) expect(w *waiter, left time.Duration, woken uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.woken != woken {
		nudge(e.lookNow)
	}
	w.due = time.Time{}
	if left > 0 {
		w.due = e.dueIn(left)
		nudge(e.lookNudge)
	}
}

func (e *Elector) forget(w *waiter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.waiters, w)
	nudge(e.lookNudge)
}

// lookLoop looks at the leases that are waited for: every RetryEvery, sooner when one of them should have expired or somebody
// called Wake. It ends when there are no waiters left.
func (e *Elector) lookLoop() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	turn := time.Now().Add(e.retryWait())
	failing := false
	timer := time.NewTimer(time.Until(turn))
	defer timer.Stop()
	for {
		e.mu.Lock()
		if len(e.waiters) == 0 {
			e.looking = false
			e.mu.Unlock()
			return
		}
		next := turn
		for w := range e.waiters {
			if !w.due.IsZero() && w.due.Before(next) {
				next = w.due
			}
		}
		e.mu.Unlock()

		timer.Reset(time.Until(next))
		select {
		case <-e.lookNudge:
			continue
		case <-e.lookNow:
		case <-timer.C:
		}
		err := e.look(ctx)
		if err != nil && !failing {
			e.emit(Event{Kind: LookFailed, Holder: e.holder, Err: err})
		}
		failing = err != nil
		turn = time.Now().Add(e.retryWait())
	}
}

// dueIn is when a lease with so much time left should be free, and a few milliseconds, so that the candidates of all processes do
// not arrive in the same instant.
func (e *Elector) dueIn(left time.Duration) time.Time {
	return time.Now().Add(left + rand.N(min(e.retryEvery/10, maxSpread)))
}

// retryWait is RetryEvery or up to a quarter longer.
func (e *Elector) retryWait() time.Duration { return e.retryEvery + rand.N(e.retryEvery/4) }

// look asks once for the leases of all waiters and hands out the answers.
func (e *Elector) look(ctx context.Context) error {
	e.mu.Lock()
	waiters := make(map[string][]*waiter, len(e.waiters))
	jobs := make([]string, 0, len(e.waiters))
	for w := range e.waiters {
		w.due = time.Time{}
		if waiters[w.job] == nil {
			jobs = append(jobs, w.job)
		}
		waiters[w.job] = append(waiters[w.job], w)
	}
	e.mu.Unlock()
	if len(jobs) == 0 {
		return nil
	}

	asked := time.Now()
	leases, err := e.lookAt(ctx, jobs)
	answered := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	for job, all := range waiters {
		n := news{lease: Lease{Job: job}, err: err}
		if lease, ok := leases[job]; ok {
			n.lease = lease
		}
		if s := e.seats[job]; s != nil && err == nil {
			n.over = s.still.over(n.lease, e.ttl, asked, answered)
		}
		for _, w := range all {
			if err == nil && n.lease.Live() {
				w.due = e.dueIn(e.freeIn(n.lease))
			}
			select {
			case <-w.news:
			default:
			}
			w.news <- n
		}
	}
	return err
}

func (e *Elector) lookAt(ctx context.Context, jobs []string) (map[string]Lease, error) {
	leases, err := ask(ctx, e, func(ctx context.Context, q db.Querier) (map[string]Lease, error) {
		rows, err := lookRows(ctx, q, jobs)
		leases := make(map[string]Lease, len(rows))
		for _, row := range rows {
			leases[row.JobName] = leaseOf(row)
		}
		return leases, err
	})
	if err != nil {
		return nil, fmt.Errorf("leader: look at %s: %w", leasesOf(len(jobs), jobs[0]), err)
	}
	return leases, nil
}

// leasesOf names n leases in a message.
func leasesOf(n int, first string) string {
	if n == 1 {
		return fmt.Sprintf("the lease of %q", first)
	}
	return fmt.Sprintf("%d leases", n)
}

// lookRows reads the rows in one statement. One job is the common case, a read by primary key.
func lookRows(ctx context.Context, q db.Querier, jobs []string) ([]db.LookLeasesRow, error) {
	if len(jobs) > 1 {
		text, err := json.Marshal(jobs)
		if err != nil {
			return nil, err
		}
		return q.LookLeases(ctx, string(text))
	}
	row, err := q.LookLease(ctx, jobs[0])
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return []db.LookLeasesRow{db.LookLeasesRow(row)}, err
}

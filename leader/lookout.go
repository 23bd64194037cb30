package leader

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/internal/pgcall"
)

// A lookout looks at the leases that calls of this process wait for: all by one statement, every
// RetryEvery, sooner when one of them should have expired or somebody called Wake. Its goroutine
// lives while there are waiters.
type lookout struct {
	*core
	still   *standstills
	changed chan struct{} // capacity 1: a waiter has gone, or has learned when its lease is free
	woken   chan struct{} // capacity 1: somebody called Wake

	mu      sync.Mutex
	waiters map[*waiter]struct{}
	wakes   uint64 // how often Wake was called
	running bool
}

func newLookout(c *core, still *standstills) *lookout {
	return &lookout{
		core:    c,
		still:   still,
		changed: make(chan struct{}, 1),
		woken:   make(chan struct{}, 1),
		waiters: make(map[*waiter]struct{}),
	}
}

// A waiter is one call that waits for sightings of a job's lease.
type waiter struct {
	job       string
	sightings chan sighting // capacity 1: a newer one replaces one that was not fetched
	due       time.Time     // under lookout.mu: when the lease is free unless renewed; zero: not known
}

// A sighting is what a look at one lease has shown.
type sighting struct {
	lease Lease
	err   error
	stale bool // the lease stands still, and nobody leads by it
}

func (l *lookout) wake(job string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wakes++
	for w := range l.waiters {
		if job == "" || w.job == job {
			nudge(l.woken)
			return
		}
	}
}

// wakesSoFar is for expect.
func (l *lookout) wakesSoFar() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wakes
}

// await begins to wait for sightings of the job's lease. The caller stops with forget.
func (l *lookout) await(job string) *waiter {
	w := &waiter{job: job, sightings: make(chan sighting, 1)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiters[w] = struct{}{}
	if !l.running {
		l.running = true
		go l.loop()
	}
	return w
}

func (l *lookout) forget(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiters, w)
	nudge(l.changed)
}

// expect says after how long the waiter's lease is free, as its caller has just learned, so that
// the next look comes then. It comes at once if Wake was called since wakes was read, for what the
// caller learned may be older.
func (l *lookout) expect(w *waiter, freeIn time.Duration, wakes uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wakes != wakes {
		nudge(l.woken)
	}
	w.due = time.Time{}
	if freeIn > 0 {
		w.due = l.dueIn(freeIn)
		nudge(l.changed)
	}
}

func (l *lookout) loop() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	turn, failing := time.Now().Add(l.retryWait()), false
	for {
		next, any := l.next(turn)
		if !any {
			return
		}
		timer.Reset(time.Until(next))
		select {
		case <-l.changed:
			continue
		case <-l.woken:
		case <-timer.C:
		}
		jobs, err := l.look(ctx)
		if err != nil && !failing {
			event := Event{Kind: EventLookFailed, Leases: len(jobs), Holder: l.holder, Err: err}
			if len(jobs) == 1 {
				event.Job = jobs[0]
			}
			l.emit(event)
		}
		turn, failing = time.Now().Add(l.retryWait()), err != nil
	}
}

// next returns when to look next, at turn or earlier. It reports false, and ends the loop, if
// nobody waits.
func (l *lookout) next(turn time.Time) (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = len(l.waiters) > 0
	for w := range l.waiters {
		if !w.due.IsZero() && w.due.Before(turn) {
			turn = w.due
		}
	}
	return turn, l.running
}

// maxSpread bounds by how much candidates of several processes spread out when a lease expires.
const maxSpread = 8 * time.Millisecond

// dueIn is when a lease with so much time left should be free, and a few milliseconds, so that the
// candidates of all processes do not arrive in the same instant.
func (l *lookout) dueIn(left time.Duration) time.Time {
	return time.Now().Add(left + rand.N(min(l.retryEvery/10, maxSpread)))
}

// retryWait is the time to the next look, if nothing wakes the lookout earlier.
func (l *lookout) retryWait() time.Duration { return pgcall.Spread(l.retryEvery) }

// look asks once for the leases of all waiters, and hands the sightings out.
func (l *lookout) look(ctx context.Context) (jobs []string, err error) {
	l.mu.Lock()
	waiters := make(map[string][]*waiter, len(l.waiters))
	for w := range l.waiters {
		w.due = time.Time{}
		if waiters[w.job] == nil {
			jobs = append(jobs, w.job)
		}
		waiters[w.job] = append(waiters[w.job], w)
	}
	l.mu.Unlock()
	if len(jobs) == 0 {
		return nil, nil
	}

	asked := time.Now()
	leases, err := l.read(ctx, jobs)
	failed := func(string) error { return err }
	if errors.Is(err, pgcall.ErrEncoding) && len(jobs) > 1 {
		leases, failed = l.readEach(ctx, jobs)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for job, all := range waiters {
		s := sighting{lease: Lease{Job: job}, err: failed(job)}
		if lease, ok := leases[job]; ok {
			s.lease = lease
		}
		s.stale = s.err == nil && l.still.over(s.lease, asked)
		for _, w := range all {
			if s.err == nil && s.lease.Live() {
				w.due = l.dueIn(l.still.freeIn(s.lease))
			}
			select {
			case <-w.sightings:
			default:
			}
			w.sightings <- s
		}
	}
	return jobs, err
}

// read reads the leases of the jobs in one statement. A job that was never led is missing.
func (l *lookout) read(ctx context.Context, jobs []string) (map[string]Lease, error) {
	read := func(ctx context.Context, q db.Querier) (map[string]Lease, error) {
		return readLeases(ctx, q, jobs)
	}
	leases, err := pgcall.AskAmongRivals(ctx, l.calls, read)
	if err != nil {
		return nil, fmt.Errorf("leader: look at %s: %w", leasesOf(len(jobs), jobs[0]), err)
	}
	return leases, nil
}

// readEach reads the leases of the jobs one by one, for a name that the database cannot store must
// not fail the look for all others. Its waiter goes, so the next look is one statement again.
func (l *lookout) readEach(
	ctx context.Context, jobs []string,
) (leases map[string]Lease, failed func(job string) error) {
	leases, errs := make(map[string]Lease, len(jobs)), make(map[string]error)
	for _, job := range jobs {
		found, err := l.read(ctx, []string{job})
		maps.Copy(leases, found)
		errs[job] = err
	}
	return leases, func(job string) error { return errs[job] }
}

// readLeases takes one job for the common case, a read by primary key.
func readLeases(ctx context.Context, q db.Querier, jobs []string) (map[string]Lease, error) {
	if len(jobs) == 1 {
		row, err := q.LookLease(ctx, jobs[0])
		if errors.Is(err, sql.ErrNoRows) {
			return nil, nil
		}
		return map[string]Lease{jobs[0]: leaseOf(row.LeaderLease, row.TimeLeft)}, err
	}
	text, err := json.Marshal(jobs)
	if err != nil {
		return nil, err
	}
	rows, err := q.LookLeases(ctx, string(text))
	leases := make(map[string]Lease, len(rows))
	for _, row := range rows {
		leases[row.LeaderLease.JobName] = leaseOf(row.LeaderLease, row.TimeLeft)
	}
	return leases, err
}

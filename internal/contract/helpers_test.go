package contract_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(processEnv); text != "" {
		runProgram(text)
	}
	pgtest.Main(m)
}

const (
	job = "nightly-report"

	// patience bounds every wait for something that must happen. A slow machine needs some of it, a
	// correct one never all.
	patience = 60 * time.Second
)

// quick is for tests that wait for renewals and takeovers, but not for an expiry: the TTL is far
// beyond any hiccup.
var quick = leader.Config{
	TTL: 30 * time.Second, RenewEvery: 50 * time.Millisecond, RetryEvery: 20 * time.Millisecond,
}

// slow is for tests in which a leader must not find out by a renewal what happened to its lease.
var slow = leader.Config{TTL: time.Hour, RetryEvery: 20 * time.Millisecond}

// forEachDriver runs a test over lib/pq and over pgx, each on a fresh database, and through
// PgBouncer if PGLEADER_PGBOUNCER says so.
func forEachDriver(t *testing.T, test func(t *testing.T, driver, url string)) {
	t.Helper()
	for _, driver := range pgtest.Drivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			past := pgtest.NewURL(t)
			url := pgtest.ThroughPooler(t, past)
			directly.Store(url, past)
			test(t, driver, url)
		})
	}
}

// newElector is an elector that logs nothing unless the test says where to.
func newElector(t *testing.T, pool *sql.DB, cfg leader.Config) *leader.Elector {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	e, err := leader.New(pool, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// acquire makes e the leader of the job, by one attempt.
func acquire(t *testing.T, e *leader.Elector, job string) *leader.Term {
	t.Helper()
	term, ok, err := e.TryAcquire(t.Context(), job)
	if err != nil || !ok {
		t.Fatalf("TryAcquire(%q) = %v, %v; want to lead", job, ok, err)
	}
	t.Cleanup(func() { _ = term.Resign() })
	return term
}

// refused makes an attempt that must not succeed.
func refused(t *testing.T, e *leader.Elector, job string) {
	t.Helper()
	if term, ok, err := e.TryAcquire(t.Context(), job); err != nil || ok || term != nil {
		t.Fatalf("TryAcquire(%q) = %v, %v, %v; want not to lead", job, term, ok, err)
	}
}

// campaign waits until e leads the job.
func campaign(t *testing.T, e *leader.Elector, job string) *leader.Term {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	term, err := e.Campaign(ctx, job)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = term.Resign() })
	return term
}

// campaigning delivers the terms to which e is elected by single campaigns.
func campaigning(t *testing.T, e *leader.Elector, job string) <-chan *leader.Term {
	won := make(chan *leader.Term, 1)
	go func() {
		term, err := e.Campaign(t.Context(), job)
		if err != nil && t.Context().Err() == nil {
			t.Errorf("campaign: %v", err)
		}
		if term != nil {
			won <- term
		}
	}()
	return won
}

// running leads the job by Run for as long as the test lasts, and delivers each term.
func running(t *testing.T, e *leader.Elector, job string) <-chan *leader.Term {
	terms := make(chan *leader.Term, 100)
	go func() {
		_ = e.Run(t.Context(), job, func(ctx context.Context, term *leader.Term) error {
			terms <- term
			<-ctx.Done()
			return nil
		})
	}()
	return terms
}

func resign(t *testing.T, term *leader.Term) {
	t.Helper()
	if err := term.Resign(); err != nil {
		t.Fatal(err)
	}
}

// expire ends the job's lease in the database, as if its TTL had passed without a renewal.
func expire(t *testing.T, pool *sql.DB, job string) {
	t.Helper()
	tx := begin(t, pool, sql.LevelReadCommitted) // a stricter one could collide with a renewal
	txExec(t, tx, `UPDATE leader_lease SET expires_at = clock_timestamp() - interval '1 second'
		WHERE job_name = $1`, job)
	commit(t, tx)
}

// row is the whole lease row of job as text, for comparison.
func row(t *testing.T, pool *sql.DB) string {
	t.Helper()
	return scan[string](t, pool, `SELECT l::text FROM leader_lease AS l WHERE job_name = $1`, job)
}

func tokenOf(t *testing.T, pool *sql.DB, job string) int64 {
	t.Helper()
	return scan[int64](t, pool, `SELECT token FROM leader_lease WHERE job_name = $1`, job)
}

// eventuallyRenewed waits for n renewals of the job's lease.
func eventuallyRenewed(t *testing.T, pool *sql.DB, job string, n int) {
	t.Helper()
	const renewedAt = `SELECT renewed_at FROM leader_lease WHERE job_name = $1`
	last := scan[time.Time](t, pool, renewedAt, job)
	eventually(t, "renewals of "+job, func() bool {
		if now := scan[time.Time](t, pool, renewedAt, job); now.After(last) {
			last = now
			n--
		}
		return n <= 0
	})
}

// receive waits for a value.
func receive[T any](t *testing.T, what string, values <-chan T) T {
	t.Helper()
	return within(t, patience, what, values)
}

// within waits for a value that must come in time.
func within[T any](t *testing.T, limit time.Duration, what string, values <-chan T) T {
	t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case v := <-values:
		return v
	case <-timer.C:
		t.Fatalf("%s: not within %v", what, limit)
		panic("unreachable")
	}
}

// eventually polls a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
		}
		<-tick.C
	}
}

// endsWithLoss waits for the end of the term, which must be a loss.
func endsWithLoss(t *testing.T, term *leader.Term) {
	t.Helper()
	receive(t, "the end of the term", term.Context().Done())
	if cause := context.Cause(term.Context()); !errors.Is(cause, leader.ErrLost) {
		t.Errorf("the term ended with the cause %v, want ErrLost", cause)
	}
}

func stillLeads(t *testing.T, term *leader.Term) {
	t.Helper()
	if term.Context().Err() != nil {
		t.Errorf("the term of token %d is over: %v", term.Token(), context.Cause(term.Context()))
	}
}

// events collects what an elector reports.
type events struct {
	mu  sync.Mutex
	all []leader.Event
}

func (r *events) add(e leader.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, e)
}

func (r *events) of(kind leader.EventKind) []leader.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []leader.Event
	for _, e := range r.all {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}

package pgleader_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

const (
	job = "nightly-report"

	// patience bounds every wait for something that must happen. A slow machine needs some of it, a correct one never all.
	patience = 60 * time.Second
)

// quick is for tests that wait for renewals and takeovers, but not for an expiry: the TTL is far beyond any hiccup.
var quick = leader.Config{TTL: 30 * time.Second, RenewEvery: 50 * time.Millisecond, RetryEvery: 20 * time.Millisecond}

// slow is for tests in which a leader must not find out by a renewal what happened to its lease.
var slow = leader.Config{TTL: time.Hour, RetryEvery: 20 * time.Millisecond}

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

func resign(t *testing.T, term *leader.Term) {
	t.Helper()
	if err := term.Resign(); err != nil {
		t.Fatal(err)
	}
}

// expire ends the job's lease in the database, as if its TTL had passed without a renewal.
func expire(t *testing.T, pool *sql.DB, job string) {
	t.Helper()
	tx := begin(t, pool, sql.LevelReadCommitted) // under a stricter default it could collide with a renewal
	txExec(t, tx, `UPDATE leader_lease SET expires_at = clock_timestamp() - interval '1 second' WHERE job_name = $1`, job)
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
	select {
	case v := <-values:
		return v
	case <-time.After(patience):
		t.Fatalf("never happened: %s", what)
	}
	panic("unreachable")
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

func mustExec(t *testing.T, pool *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := pool.ExecContext(context.Background(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// scan reads one value.
func scan[T any](t *testing.T, q queryer, query string, args ...any) T {
	t.Helper()
	var v T
	if err := q.QueryRowContext(context.Background(), query, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

type queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// begin starts a transaction that is rolled back at the end of the test if it is still open.
func begin(t *testing.T, pool *sql.DB, level sql.IsolationLevel) *sql.Tx {
	t.Helper()
	tx, err := pool.BeginTx(context.Background(), &sql.TxOptions{Isolation: level})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

func txExec(t *testing.T, tx *sql.Tx, query string, args ...any) {
	t.Helper()
	if _, err := tx.ExecContext(context.Background(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func rollback(t *testing.T, tx *sql.Tx) {
	t.Helper()
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
}

func commit(t *testing.T, tx *sql.Tx) {
	t.Helper()
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// withParam adds a parameter to a URL. Both drivers pass one that they don't know to the server, as a setting of the session.
func withParam(t *testing.T, rawURL, key, value string) string {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set(key, value)
	u.RawQuery = q.Encode()
	return u.String()
}

// named makes connections of the URL recognisable in pg_stat_activity.
func named(t *testing.T, rawURL, name string) string {
	t.Helper()
	return withParam(t, rawURL, "application_name", name)
}

// alterDatabase changes a setting for all later connections to the database that the admin is connected to, directly. A pooler has to make
// new ones, as after its RECONNECT.
func alterDatabase(t *testing.T, admin *sql.DB, change string) {
	t.Helper()
	name := scan[string](t, admin, `SELECT current_database()`)
	mustExec(t, admin, `ALTER DATABASE `+pgx.Identifier{name}.Sanitize()+` `+change)
	if pgtest.Pooled() != "" {
		mustExec(t, admin, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	}
}

func sqlState(err error) string {
	var e interface{ SQLState() string }
	if errors.As(err, &e) {
		return e.SQLState()
	}
	return ""
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

// openPair opens the same database twice: as the leader sees it, and for the test's own looks.
func openPair(t *testing.T, driver, url string) (pool, admin *sql.DB) {
	t.Helper()
	return pgtest.Open(t, driver, url), pgtest.Open(t, driver, named(t, url, "admin"))
}

// logLines is a slog handler's output that can be read while it is written to.
type logLines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logLines) contain(s string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), s)
}

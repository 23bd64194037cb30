package contract_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/internal/pgtest"
)

// openPair opens the same database twice: as the leader sees it, and for the test's own looks.
func openPair(t *testing.T, driver, url string) (pool, admin *sql.DB) {
	t.Helper()
	return pgtest.Open(t, driver, url), pgtest.Open(t, driver, named(t, url, "admin"))
}

func mustExec(t *testing.T, pool *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := pool.ExecContext(context.Background(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

type queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
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

// clockPast waits until the database's clock is a given time past a moment.
func clockPast(t *testing.T, q queryer, moment time.Time, by string) {
	t.Helper()
	eventually(t, "the database's clock goes on", func() bool {
		return scan[bool](t, q,
			`SELECT clock_timestamp() > $1::timestamptz + $2::text::interval`, moment, by)
	})
}

func databaseNow(t *testing.T, q queryer) time.Time {
	t.Helper()
	return scan[time.Time](t, q, `SELECT clock_timestamp()`)
}

func expiresAt(t *testing.T, q queryer) time.Time {
	t.Helper()
	return scan[time.Time](t, q, `SELECT expires_at FROM leader_lease WHERE job_name = $1`, job)
}

// claimOf and the three below are the arguments of statements, for tests that send them themselves.
func claimOf(holder, job string, seconds float64) db.AcquireLeaseParams {
	return db.AcquireLeaseParams{Holder: holder, JobName: job, TTLSeconds: seconds}
}

func renewalOf(holder, job string, token int64, seconds float64) db.RenewLeaseParams {
	return db.RenewLeaseParams{Holder: holder, JobName: job, Token: token, TTLSeconds: seconds}
}

func renewalsOf(holder, terms string, seconds float64) db.RenewLeasesParams {
	return db.RenewLeasesParams{Holder: holder, Terms: terms, TTLSeconds: seconds}
}

func releaseOf(holder, job string, token int64) db.ReleaseLeaseParams {
	return db.ReleaseLeaseParams{Holder: holder, JobName: job, Token: token}
}

// withParam adds a parameter to a URL. Both drivers pass one that they don't know to the server, as
// a setting of the session.
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

// lockIsAwaited reports whether some statement in this database waits for a lock.
func lockIsAwaited(t *testing.T, pool *sql.DB) bool {
	t.Helper()
	return scan[bool](t, pool, `SELECT count(*) > 0 FROM pg_stat_activity
		WHERE datname = current_database() AND wait_event_type = 'Lock'`)
}

// connectionsOf counts the connections of that name.
func connectionsOf(t *testing.T, pool *sql.DB, name string) int {
	t.Helper()
	return scan[int](t, pool, `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = $1`, name)
}

// alterDatabase changes a setting for all later connections to the database that the admin is
// connected to, directly. A pooler has to make new ones, as after its RECONNECT.
func alterDatabase(t *testing.T, admin *sql.DB, change string) {
	t.Helper()
	name := scan[string](t, admin, `SELECT current_database()`)
	mustExec(t, admin, `ALTER DATABASE `+pgx.Identifier{name}.Sanitize()+` `+change)
	if pgtest.Pooled() != "" {
		mustExec(t, admin, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	}
}

// asNewRole creates a role without any rights and returns the URL for it.
func asNewRole(t *testing.T, admin *sql.DB, rawURL string) string {
	t.Helper()
	role := "pgtest_" + strings.ToLower(rand.Text())
	mustExec(t, admin, `CREATE ROLE `+role+` LOGIN PASSWORD '`+pgtest.RolePassword+`'`)
	t.Cleanup(func() {
		mustExec(t, admin, `DROP OWNED BY `+role)
		mustExec(t, admin, `DROP ROLE `+role)
	})
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, pgtest.RolePassword)
	return u.String()
}

func userOf(t *testing.T, rawURL string) string {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	return u.User.Username()
}

func sqlState(err error) string {
	var e interface{ SQLState() string }
	if errors.As(err, &e) {
		return e.SQLState()
	}
	return ""
}

// directly has the URL past the pooler of every URL that forEachDriver has given to a test.
var directly sync.Map

// direct leads past the pooler, if there is one: what needs a session of its own, to listen or to
// look at those of others, does not go through one in transaction mode.
func direct(url string) string {
	if past, ok := directly.Load(url); ok {
		return past.(string)
	}
	return url
}

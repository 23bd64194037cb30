package contract_test

import (
	"database/sql"
	"errors"
	"testing"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/leader"
)

func TestTokenGrowsAcrossResignationExpiryAndLoss(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool, admin := openPair(t, driver, url)
		a, b := newElector(t, pool, quick), newElector(t, pool, quick)
		var last int64
		grows := func(term *leader.Term) *leader.Term {
			t.Helper()
			if term.Token() <= last {
				t.Errorf("token %d after %d", term.Token(), last)
			}
			last = term.Token()
			return term
		}
		for range 3 {
			resign(t, grows(acquire(t, a, job))) // by the same elector
			resign(t, grows(acquire(t, b, job))) // by another
			lost := grows(acquire(t, a, job))
			expire(t, admin, job)
			endsWithLoss(t, lost)
			resign(t, grows(campaign(t, a, job))) // after a loss, by who lost it
		}
		expiring, err := db.New(admin).AcquireLease(t.Context(), claimOf("crashed", job, 0.5))
		if err != nil || !expiring.Acquired || expiring.Token <= last {
			t.Fatalf("AcquireLease = %+v, %v after token %d", expiring, err, last)
		}
		last = expiring.Token
		grows(campaign(t, b, job)) // after an expiry
	})
}

// The other fence, for tables that are written too often for guards: the token stands in the user's
// own row, and the user's own UPDATE compares it.
func TestTokenColumnRefusesStaleWrite(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool, admin := openPair(t, driver, url)
		mustExec(t, admin, `CREATE TABLE report (
			day date PRIMARY KEY, body text NOT NULL, token bigint NOT NULL DEFAULT 0)`)
		mustExec(t, admin, `INSERT INTO report VALUES ('2026-01-01', '')`)
		write := func(body string, token int64) int64 {
			t.Helper()
			result, err := pool.ExecContext(t.Context(), `UPDATE report SET body = $1, token = $2
				WHERE day = '2026-01-01' AND token <= $2`, body, token)
			if err != nil {
				t.Fatal(err)
			}
			n, err := result.RowsAffected()
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		q := db.New(pool)
		if _, err := q.LeaseToken(t.Context(), job); !errors.Is(err, sql.ErrNoRows) {
			t.Errorf("LeaseToken of a job that was never led: %v, want sql.ErrNoRows", err)
		}
		old := acquire(t, newElector(t, pool, slow), job)
		if n := write("by the first", old.Token()); n != 1 {
			t.Errorf("the leader's write changed %d rows, want 1", n)
		}
		expire(t, admin, job)
		next := acquire(t, newElector(t, pool, slow), job)
		token, err := q.LeaseToken(t.Context(), job)
		if err != nil || token != next.Token() || token <= old.Token() {
			t.Errorf("LeaseToken = %d, %v; want the successor's %d", token, err, next.Token())
		}
		if n := write("by the second", next.Token()); n != 1 {
			t.Errorf("the successor's write changed %d rows, want 1", n)
		}
		stillLeads(t, old) // as far as it knows
		if n := write("by the first, late", old.Token()); n != 0 {
			t.Errorf("the stale write changed %d rows, want 0", n)
		}
		if body := scan[string](t, admin, `SELECT body FROM report`); body != "by the second" {
			t.Errorf("the report is %q", body)
		}
	})
}

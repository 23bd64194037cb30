package pgleader_test

import (
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/internal/pgtest"
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
		expiring, err := db.New(admin).AcquireLease(t.Context(), db.AcquireLeaseParams{Holder: "crashed", JobName: job, TTLSeconds: 0.5})
		if err != nil || !expiring.Acquired || expiring.Token <= last {
			t.Fatalf("AcquireLease = %+v, %v after token %d", expiring, err, last)
		}
		last = expiring.Token
		grows(campaign(t, b, job)) // after an expiry
	})
}

// A restart of the server is no reason to lose a term, and not even a crash of it may lose the row.
func TestLeaseSurvivesFastAndImmediateRestartOfServer(t *testing.T) {
	t.Parallel()
	server := pgtest.Private(t)
	type contender struct {
		driver      string
		pool, admin *sql.DB
		elector     *leader.Elector
		term        *leader.Term
	}
	var all []*contender
	for _, driver := range pgtest.Drivers {
		url, err := server.CreateDatabase(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		c := &contender{driver: driver}
		c.pool, c.admin = openPair(t, driver, url)
		c.elector = newElector(t, c.pool, leader.Config{TTL: 10 * time.Minute, RenewEvery: 100 * time.Millisecond})
		c.term = acquire(t, c.elector, job)
		mustExec(t, c.admin, `SELECT 1`)
		all = append(all, c)
	}
	const identity = `SELECT job_name || ' ' || holder || ' ' || token || ' ' || acquired_at FROM leader_lease`
	for _, immediate := range []bool{false, true} {
		var before []string
		for _, c := range all {
			before = append(before, scan[string](t, c.admin, identity))
		}
		if err := server.Restart(t.Context(), immediate); err != nil {
			t.Fatal(err)
		}
		for i, c := range all {
			var after string
			eventually(t, "the server answers again", func() bool { return c.admin.QueryRowContext(t.Context(), identity).Scan(&after) == nil })
			if after != before[i] {
				t.Errorf("%s, immediate %v: the lease was %s and is %s", c.driver, immediate, before[i], after)
			}
			eventuallyRenewed(t, c.admin, job, 2)
			stillLeads(t, c.term)
			last := c.term.Token()
			resign(t, c.term)
			if c.term = campaign(t, c.elector, job); c.term.Token() != last+1 {
				t.Errorf("%s, immediate %v: token %d after %d", c.driver, immediate, c.term.Token(), last)
			}
		}
	}
}

// Nobody should delete a lease row: its token starts again, at 1 or after the last one that the next leader's process had, so that a fence in another table refuses the new leaders until
// their tokens have grown past the old ones. But even then two never lead at once.
func TestDeletedRowEndsTermIsNeverRecreatedByRenewalAndStartsTokenAgain(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool, admin := openPair(t, driver, url)
		a, b := newElector(t, pool, quick), newElector(t, pool, slow)
		for range 4 {
			resign(t, acquire(t, a, job))
		}
		known := int64(0)                            // the last token of b's
		for _, others := range []bool{false, true} { // a term that is renewed alone, and one of several
			old := acquire(t, a, job)
			if others {
				acquire(t, a, "another job")
			}
			eventuallyRenewed(t, admin, job, 1)
			mustExec(t, admin, `DELETE FROM leader_lease WHERE job_name = $1`, job)
			endsWithLoss(t, old)
			if n := scan[int](t, admin, `SELECT count(*) FROM leader_lease WHERE job_name = $1`, job); n != 0 {
				t.Fatal("a renewal created the row again")
			}
			next := acquire(t, b, job)
			if known++; next.Token() != known {
				t.Errorf("the token of a new row is %d, want %d", next.Token(), known)
			}
			checkDelayedRenewalHasNoEffect(t, admin, a.Holder(), old.Token())
			resign(t, next)
			checkDelayedRenewalHasNoEffect(t, admin, a.Holder(), old.Token())
			if err := old.Resign(); err != nil {
				t.Errorf("resigning a term whose row was deleted: %v", err)
			}
			resign(t, acquire(t, a, job))
			resign(t, acquire(t, a, job))
			if token := tokenOf(t, admin, job); token != known+2 {
				t.Errorf("three terms after the deletion the token is %d, want %d", token, known+2)
			}
		}
	})
}

// checkDelayedRenewalHasNoEffect lets a renewal arrive that was sent before the row was deleted.
func checkDelayedRenewalHasNoEffect(t *testing.T, admin *sql.DB, holder string, token int64) {
	t.Helper()
	q, before := db.New(admin), row(t, admin)
	n, err := q.RenewLease(t.Context(), db.RenewLeaseParams{JobName: job, Holder: holder, Token: token, TTLSeconds: 60})
	if err != nil || n != 0 {
		t.Errorf("a delayed renewal = %d, %v; want 0 rows", n, err)
	}
	n, err = q.ReleaseLease(t.Context(), db.ReleaseLeaseParams{JobName: job, Holder: holder, Token: token})
	if err != nil || n != 0 {
		t.Errorf("a delayed release = %d, %v; want 0 rows", n, err)
	}
	if after := row(t, admin); after != before {
		t.Errorf("the row was %s and is %s", before, after)
	}
}

// The other fence, for tables that are written too often for guards: the token stands in the user's own row, and the user's
// own UPDATE compares it.
func TestTokenColumnRefusesStaleWrite(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool, admin := openPair(t, driver, url)
		mustExec(t, admin, `CREATE TABLE report (day date PRIMARY KEY, body text NOT NULL, token bigint NOT NULL DEFAULT 0)`)
		mustExec(t, admin, `INSERT INTO report VALUES ('2026-01-01', '')`)
		write := func(body string, token int64) int64 {
			t.Helper()
			result, err := pool.ExecContext(t.Context(), `UPDATE report SET body = $1, token = $2 WHERE day = '2026-01-01' AND token <= $2`, body, token)
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
		if token, err := q.LeaseToken(t.Context(), job); err != nil || token != next.Token() || token <= old.Token() {
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

package pgleader_test

import (
	"database/sql"
	"testing"

	"github.com/pgleader/pgleader/db"
)

// A process may be elected twice, and a statement of its first term may be late: its name alone must not be enough.
func TestRenewalAndReleaseMatchTheExactTerm(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool, admin := openPair(t, driver, url)
		q := db.New(pool)
		for known := range int64(2) {
			claim := db.AcquireLeaseParams{Holder: "me", JobName: job, KnownToken: known, TTLSeconds: 60}
			got, err := q.AcquireLease(t.Context(), claim)
			if err != nil || got.Token != known+1 {
				t.Fatalf("AcquireLease = %+v, %v", got, err)
			}
		}
		before := row(t, admin)
		for _, c := range []struct {
			what, job, holder string
			token             int64
		}{
			{"an earlier term", job, "me", 1},
			{"a later term", job, "me", 3},
			{"another holder", job, "you", 2},
			{"another job", "another", "me", 2},
		} {
			renewal := db.RenewLeaseParams{JobName: c.job, Holder: c.holder, Token: c.token, TTLSeconds: 600}
			n, err := q.RenewLease(t.Context(), renewal)
			if n != 0 || err != nil {
				t.Errorf("renewal of %s: %d rows, %v", c.what, n, err)
			}
			n, err = q.ReleaseLease(t.Context(), db.ReleaseLeaseParams{JobName: c.job, Holder: c.holder, Token: c.token})
			if n != 0 || err != nil {
				t.Errorf("release of %s: %d rows, %v", c.what, n, err)
			}
		}
		if after := row(t, admin); after != before {
			t.Errorf("the row was %s and is %s", before, after)
		}
	})
}

// A renewal that the network delivers late must not bring back a lease that has ended, though nobody has taken it.
func TestRenewalOfALeaseThatHasEndedChangesNothing(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool, admin := openPair(t, driver, url)
		q := db.New(pool)
		claim := db.AcquireLeaseParams{Holder: "me", JobName: job, TTLSeconds: 60}
		if got, err := q.AcquireLease(t.Context(), claim); err != nil || got.Token != 1 {
			t.Fatalf("AcquireLease = %+v, %v", got, err)
		}
		expire(t, admin, job)
		before := row(t, admin)
		n, err := q.RenewLease(t.Context(), db.RenewLeaseParams{JobName: job, Holder: "me", Token: 1, TTLSeconds: 60})
		if n != 0 || err != nil {
			t.Errorf("RenewLease = %d, %v", n, err)
		}
		rows, err := q.RenewLeases(t.Context(), db.RenewLeasesParams{
			Terms: `[{"job_name": "` + job + `", "token": 1}]`, Holder: "me", TTLSeconds: 60,
		})
		if len(rows) != 0 || err != nil {
			t.Errorf("RenewLeases = %+v, %v", rows, err)
		}
		if after := row(t, admin); after != before {
			t.Errorf("the row was %s and is %s", before, after)
		}
	})
}

// The statement may be part of a caller's transaction, for which now() stands still.
func TestClaimInAnOldTransactionCountsFromNow(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool, admin := openPair(t, driver, url)
		old := db.AcquireLeaseParams{Holder: "old", JobName: job, TTLSeconds: 60}
		if _, err := db.New(pool).AcquireLease(t.Context(), old); err != nil {
			t.Fatal(err)
		}
		expire(t, admin, job)
		for _, job := range []string{job, "absent"} {
			tx := begin(t, pool, sql.LevelReadCommitted)
			if _, err := tx.ExecContext(t.Context(), "SELECT pg_sleep(1)"); err != nil {
				t.Fatal(err)
			}
			got, err := db.New(tx).AcquireLease(t.Context(), db.AcquireLeaseParams{Holder: "me", JobName: job, TTLSeconds: 60})
			if err != nil || !got.Acquired || got.TimeLeft < 59.5 {
				t.Errorf("%s: AcquireLease = %+v, %v; want acquired, with all of its 60 s left", job, got, err)
			}
			rollback(t, tx)
		}
	})
}

package contract_test

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

func TestTTLReachesTheDatabaseInSeconds(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		ahead := func(job string, ttl float64) {
			t.Helper()
			// Both times are read from the clock by one statement, one after the other.
			got := scan[float64](t, pool, `SELECT extract(epoch FROM expires_at - renewed_at)::float8
				FROM leader_lease WHERE job_name = $1`, job)
			if got < ttl || got > ttl+1 {
				t.Errorf("the lease of %q expires %v s after its renewal, want %v", job, got, ttl)
			}
		}
		acquire(t, newElector(t, pool, leader.Config{}), "default")
		ahead("default", 15)
		fraction := leader.Config{TTL: 1500 * time.Millisecond, RenewEvery: 800 * time.Millisecond}
		acquire(t, newElector(t, pool, fraction), "fraction")
		ahead("fraction", 1.5)

		q := db.New(pool)
		if _, err := q.AcquireLease(t.Context(), claimOf("me", job, 15)); err != nil {
			t.Fatal(err)
		}
		ahead(job, 15)
		if _, err := q.RenewLease(t.Context(), renewalOf("me", job, 1, 20.5)); err != nil {
			t.Fatal(err)
		}
		ahead(job, 20.5)
		terms := fmt.Sprintf(`[{"job_name": %q, "token": 1}]`, job)
		if _, err := q.RenewLeases(t.Context(), renewalsOf("me", terms, 0.75)); err != nil {
			t.Fatal(err)
		}
		ahead(job, 0.75)
	})
}

// A client counts its lease from the moment it asked. Whatever a statement waits for, the database
// must not count from earlier, as it would by now(), nor say that a lease is acquired which is
// over.
func TestWaitForRowLockDoesNotCutTheLease(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool, admin := openPair(t, driver, url)
		q := db.New(pool)
		waiting := func() bool { return lockIsAwaited(t, admin) }
		const ttl = 0.5

		t.Run("renewal", func(t *testing.T) {
			if _, err := q.AcquireLease(t.Context(), claimOf("me", job, 3600)); err != nil {
				t.Fatal(err)
			}
			caller := begin(t, pool, sql.LevelReadCommitted) // now() is when it began
			began := databaseNow(t, caller)
			lock := begin(t, admin, sql.LevelReadCommitted)
			txExec(t, lock, `SELECT FROM leader_lease FOR UPDATE`)
			clockPast(t, admin, began, "1 second")
			asked := databaseNow(t, admin)
			renewed := make(chan int64, 1)
			go func() {
				n, err := q.WithTx(caller).RenewLease(t.Context(), renewalOf("me", job, 1, ttl))
				if err != nil {
					t.Error(err)
				}
				renewed <- n
			}()
			eventually(t, "the renewal waits", waiting)
			rollback(t, lock)
			if n := receive(t, "the renewal", renewed); n != 1 {
				t.Errorf("%d leases were renewed", n)
			}
			commit(t, caller)
			expires := expiresAt(t, admin)
			if expires.Before(asked.Add(ttl * 1e9)) {
				t.Errorf("the lease ends %v after the renewal was asked for, want at least %v s",
					expires.Sub(asked), ttl)
			}
		})

		// An expired row that somebody has locked: the attempt does not wait at all.
		t.Run("acquisition of a locked row", func(t *testing.T) {
			expire(t, admin, job)
			lock := begin(t, admin, sql.LevelReadCommitted)
			txExec(t, lock, `SELECT FROM leader_lease FOR UPDATE`)
			got, err := q.AcquireLease(t.Context(), claimOf("other", job, ttl))
			if err != nil || got.Acquired {
				t.Errorf("AcquireLease = %+v, %v; want not acquired", got, err)
			}
			rollback(t, lock)
			got, err = q.AcquireLease(t.Context(), claimOf("other", job, 60))
			if err != nil || !got.Acquired || got.TimeLeft < 30 {
				t.Errorf("AcquireLease = %+v, %v; want acquired, with all of its time left", got, err)
			}
		})

		// A row that somebody is about to create: the attempt has to wait, and may win after all.
		t.Run("acquisition of an absent row", func(t *testing.T) {
			const job = "absent"
			rival := begin(t, admin, sql.LevelReadCommitted)
			got, err := db.New(rival).AcquireLease(t.Context(), claimOf("rival", job, 60))
			if err != nil || !got.Acquired {
				t.Fatalf("AcquireLease = %+v, %v", got, err)
			}
			start := databaseNow(t, admin)
			acquired := make(chan db.AcquireLeaseRow, 1)
			go func() {
				got, err := q.AcquireLease(t.Context(), claimOf("me", job, ttl))
				if err != nil {
					t.Error(err)
				}
				acquired <- got
			}()
			eventually(t, "the attempt waits", waiting)
			clockPast(t, admin, start, "1 second")
			rollback(t, rival)
			if got := receive(t, "the attempt", acquired); got.Acquired && got.TimeLeft <= 0 {
				t.Errorf("AcquireLease says that the lease is acquired, with %v s left", got.TimeLeft)
			}
		})
	})
}

// The statement may be part of a caller's transaction, for which now() stands still.
func TestClaimInAnOldTransactionCountsFromNow(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool, admin := openPair(t, driver, url)
		old := claimOf("old", job, 60)
		if _, err := db.New(pool).AcquireLease(t.Context(), old); err != nil {
			t.Fatal(err)
		}
		expire(t, admin, job)
		for _, job := range []string{job, "absent"} {
			tx := begin(t, pool, sql.LevelReadCommitted)
			clockPast(t, admin, databaseNow(t, tx), "1 second")
			got, err := db.New(tx).AcquireLease(t.Context(), claimOf("me", job, 60))
			if err != nil || !got.Acquired || got.TimeLeft < 59.5 {
				t.Errorf("%s: AcquireLease = %+v, %v; want acquired, with all of its 60 s left", job, got, err)
			}
			rollback(t, tx)
		}
	})
}

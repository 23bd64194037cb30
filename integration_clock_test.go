package pgleader_test

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
			got := scan[float64](t, pool, `SELECT extract(epoch FROM expires_at - renewed_at)::float8 FROM leader_lease WHERE job_name = $1`, job)
			if got < ttl || got > ttl+1 {
				t.Errorf("the lease of %q expires %v s after its renewal, want %v", job, got, ttl)
			}
		}
		acquire(t, newElector(t, pool, leader.Config{}), "default")
		ahead("default", 15)
		acquire(t, newElector(t, pool, leader.Config{TTL: 1500 * time.Millisecond, RenewEvery: 800 * time.Millisecond}), "fraction")
		ahead("fraction", 1.5)

		q := db.New(pool)
		if _, err := q.AcquireLease(t.Context(), db.AcquireLeaseParams{Holder: "me", JobName: job, TTLSeconds: 15}); err != nil {
			t.Fatal(err)
		}
		ahead(job, 15)
		if _, err := q.RenewLease(t.Context(), db.RenewLeaseParams{Holder: "me", JobName: job, Token: 1, TTLSeconds: 20.5}); err != nil {
			t.Fatal(err)
		}
		ahead(job, 20.5)
		terms := fmt.Sprintf(`[{"job_name": %q, "token": 1}]`, job)
		if _, err := q.RenewLeases(t.Context(), db.RenewLeasesParams{Holder: "me", Terms: terms, TTLSeconds: 0.75}); err != nil {
			t.Fatal(err)
		}
		ahead(job, 0.75)
	})
}

// An hour of any time zone is the same instant in every other.
func TestSessionTimeZoneChangesNoInstant(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		tokyo := pgtest.Open(t, driver, withParam(t, url, "timezone", "Asia/Tokyo"))
		york := pgtest.Open(t, driver, withParam(t, url, "timezone", "America/New_York"))
		if zone := scan[string](t, tokyo, `SHOW timezone`); zone != "Asia/Tokyo" {
			t.Fatalf("the session's time zone is %s", zone)
		}
		a, b := newElector(t, tokyo, slow), newElector(t, york, slow)
		acquire(t, a, job)
		refused(t, b, job)
		truth := scan[float64](t, york, `SELECT extract(epoch FROM expires_at)::float8 FROM leader_lease`)
		for _, e := range []*leader.Elector{a, b} {
			leases, err := e.Leases(t.Context())
			if err != nil || len(leases) != 1 {
				t.Fatalf("Leases = %v, %v", leases, err)
			}
			l := leases[0]
			if got := float64(l.ExpiresAt.UnixMicro()) / 1e6; got < truth-1e-3 || got > truth+1e-3 {
				t.Errorf("the lease expires at %f, want %f", got, truth)
			}
			if l.Left < 59*time.Minute || l.Left > time.Hour || l.ExpiresAt.Sub(l.AcquiredAt) < time.Hour {
				t.Errorf("the lease is %+v, want an hour", l)
			}
		}
		expire(t, tokyo, job)
		acquire(t, b, job)
	})
}

// clockPast waits until the database's clock is a given time past a moment.
func clockPast(t *testing.T, q queryer, moment time.Time, by string) {
	t.Helper()
	eventually(t, "the database's clock goes on", func() bool {
		return scan[bool](t, q, `SELECT clock_timestamp() > $1::timestamptz + $2::text::interval`, moment, by)
	})
}

const clock = `SELECT clock_timestamp()`

// A client counts its lease from the moment it asked. Whatever a statement waits for, the database must not count from earlier, as
// it would by now(), nor say that a lease is acquired which is over.
func TestWaitForRowLockDoesNotCutTheLease(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool, admin := openPair(t, driver, url)
		q := db.New(pool)
		waiting := func() bool {
			return scan[bool](t, admin, `SELECT count(*) > 0 FROM pg_stat_activity
				WHERE datname = current_database() AND wait_event_type = 'Lock'`)
		}
		const ttl = 0.5

		t.Run("renewal", func(t *testing.T) {
			if _, err := q.AcquireLease(t.Context(), db.AcquireLeaseParams{Holder: "me", JobName: job, TTLSeconds: 3600}); err != nil {
				t.Fatal(err)
			}
			caller := begin(t, pool, sql.LevelReadCommitted) // now() is when it began
			began := scan[time.Time](t, caller, clock)
			lock := begin(t, admin, sql.LevelReadCommitted)
			txExec(t, lock, `SELECT FROM leader_lease FOR UPDATE`)
			clockPast(t, admin, began, "1 second")
			asked := scan[time.Time](t, admin, clock)
			renewed := make(chan int64, 1)
			go func() {
				n, err := q.WithTx(caller).RenewLease(t.Context(), db.RenewLeaseParams{Holder: "me", JobName: job, Token: 1, TTLSeconds: ttl})
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
			expires := scan[time.Time](t, admin, `SELECT expires_at FROM leader_lease WHERE job_name = $1`, job)
			if expires.Before(asked.Add(ttl * 1e9)) {
				t.Errorf("the lease ends %v after the renewal was asked for, want at least %v s", expires.Sub(asked), ttl)
			}
		})

		// An expired row that somebody has locked: the attempt does not wait at all.
		t.Run("acquisition of a locked row", func(t *testing.T) {
			expire(t, admin, job)
			lock := begin(t, admin, sql.LevelReadCommitted)
			txExec(t, lock, `SELECT FROM leader_lease FOR UPDATE`)
			got, err := q.AcquireLease(t.Context(), db.AcquireLeaseParams{Holder: "other", JobName: job, TTLSeconds: ttl})
			if err != nil || got.Acquired {
				t.Errorf("AcquireLease = %+v, %v; want not acquired", got, err)
			}
			rollback(t, lock)
			got, err = q.AcquireLease(t.Context(), db.AcquireLeaseParams{Holder: "other", JobName: job, TTLSeconds: 60})
			if err != nil || !got.Acquired || got.TimeLeft < 30 {
				t.Errorf("AcquireLease = %+v, %v; want acquired, with all of its time left", got, err)
			}
		})

		// A row that somebody is about to create: the attempt has to wait, and may win after all.
		t.Run("acquisition of an absent row", func(t *testing.T) {
			const job = "absent"
			rival := begin(t, admin, sql.LevelReadCommitted)
			if got, err := db.New(rival).AcquireLease(t.Context(), db.AcquireLeaseParams{Holder: "rival", JobName: job, TTLSeconds: 60}); err != nil || !got.Acquired {
				t.Fatalf("AcquireLease = %+v, %v", got, err)
			}
			start := scan[time.Time](t, admin, clock)
			acquired := make(chan db.AcquireLeaseRow, 1)
			go func() {
				got, err := q.AcquireLease(t.Context(), db.AcquireLeaseParams{Holder: "me", JobName: job, TTLSeconds: ttl})
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

// The rows are as they would be if the clock had been set back by an hour.
func TestFreeLeaseEndsOnlyALeaseThatStandsStill(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		q := db.New(pool)
		term := acquire(t, newElector(t, pool, slow), job)
		renewed := func() time.Time {
			return scan[time.Time](t, pool, `SELECT renewed_at FROM leader_lease WHERE job_name = $1`, job)
		}
		free := func(want int64, why string, args db.FreeLeaseParams) {
			t.Helper()
			if n, err := q.FreeLease(t.Context(), args); err != nil || n != want {
				t.Errorf("FreeLease, %s: %d, %v; want %d", why, n, err, want)
			}
		}
		args := db.FreeLeaseParams{JobName: job, Token: term.Token(), RenewedAt: renewed()}
		mustExec(t, pool, `UPDATE leader_lease SET renewed_at = renewed_at + interval '1 hour', expires_at = expires_at + interval '1 hour'`)
		free(0, "of a lease renewed since", args)
		args.RenewedAt = renewed()
		other := args
		other.Token++
		free(0, "of another term", other)
		refused(t, newElector(t, pool, slow), job)
		lock := begin(t, pool, sql.LevelDefault)
		txExec(t, lock, `SELECT FROM leader_lease FOR UPDATE`)
		free(0, "of a row that somebody has locked", args)
		rollback(t, lock)
		free(1, "of a lease that stands still", args)
		if next := acquire(t, newElector(t, pool, slow), job); next.Token() != term.Token()+1 {
			t.Errorf("token %d after %d", next.Token(), term.Token())
		}
		free(0, "of its successor", args)
	})
}

// A candidate frees such a lease by itself.
func TestCandidateFreesALeaseThatStandsStill(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		cfg := leader.Config{TTL: time.Second, RetryEvery: 20 * time.Millisecond}
		dead := newElector(t, pool, cfg)
		acquire(t, dead, job)
		mustExec(t, pool, `UPDATE leader_lease SET holder = 'a host that is gone',
			renewed_at = renewed_at + interval '1 hour', expires_at = expires_at + interval '1 hour'`)
		var seen events
		cfg.OnEvent = seen.add
		term := campaign(t, newElector(t, pool, cfg), job)
		if freed := seen.of(leader.ClockSetBack); len(freed) != 1 || freed[0].Holder != "a host that is gone" {
			t.Errorf("reported %+v", freed)
		}
		resign(t, term)
	})
}

package contract_test

import (
	"database/sql"
	"testing"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/leader"
)

func TestLateResignationLeavesSuccessorAlone(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool, admin := openPair(t, driver, url)
		old := acquire(t, newElector(t, pool, slow), job)
		expire(t, admin, job)
		next := acquire(t, newElector(t, pool, slow), job)
		before := row(t, admin)

		stillLeads(t, old) // it stalled, and takes itself for the leader
		if err := old.Resign(); err != nil {
			t.Errorf("Resign: %v", err)
		}
		if after := row(t, admin); after != before {
			t.Errorf("the successor's row was %s and is %s", before, after)
		}
		stillLeads(t, next)
		refused(t, newElector(t, pool, slow), job)
	})
}

func TestOvertakenLeaderStepsDownAtItsNextRenewal(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool, admin := openPair(t, driver, url)
		for _, others := range []bool{false, true} { // a term that is renewed alone, and one of several
			var seen events
			cfg := quick
			cfg.OnEvent = seen.add
			a := newElector(t, pool, cfg)
			if others {
				kept := acquire(t, a, "another job")
				defer stillLeads(t, kept)
			}
			old := acquire(t, a, job)
			overtake(t, admin)
			before := row(t, admin)
			endsWithLoss(t, old)
			eventually(t, "a report of the loss", func() bool { return len(seen.of(leader.EventLost)) > 0 })
			lost := seen.of(leader.EventLost)
			if len(lost) != 1 || lost[0].Token != old.Token() || lost[0].Job != job {
				t.Errorf("the losses reported are %+v, want one, of token %d", lost, old.Token())
			}
			refused(t, a, job)
			if after := row(t, admin); after != before {
				t.Errorf("the successor's row was %s and is %s", before, after)
			}
			expire(t, admin, job)
		}
	})
}

// overtake makes somebody else the leader of the job, whoever leads it.
func overtake(t *testing.T, admin *sql.DB) {
	t.Helper()
	mustExec(t, admin, `UPDATE leader_lease SET holder = 'somebody', token = token + 1,
		acquired_at = clock_timestamp(), renewed_at = clock_timestamp(),
		expires_at = clock_timestamp() + interval '1 hour' WHERE job_name = $1`, job)
}

// A process may be elected twice, and a statement of its first term may be late: its name alone
// must not be enough.
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
			renewal := renewalOf(c.holder, c.job, c.token, 600)
			n, err := q.RenewLease(t.Context(), renewal)
			if n != 0 || err != nil {
				t.Errorf("renewal of %s: %d rows, %v", c.what, n, err)
			}
			n, err = q.ReleaseLease(t.Context(), releaseOf(c.holder, c.job, c.token))
			if n != 0 || err != nil {
				t.Errorf("release of %s: %d rows, %v", c.what, n, err)
			}
		}
		if after := row(t, admin); after != before {
			t.Errorf("the row was %s and is %s", before, after)
		}
	})
}

// A renewal that the network delivers late must not bring back a lease that has ended, though
// nobody has taken it.
func TestRenewalOfALeaseThatHasEndedChangesNothing(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool, admin := openPair(t, driver, url)
		q := db.New(pool)
		claim := claimOf("me", job, 60)
		if got, err := q.AcquireLease(t.Context(), claim); err != nil || got.Token != 1 {
			t.Fatalf("AcquireLease = %+v, %v", got, err)
		}
		expire(t, admin, job)
		before := row(t, admin)
		n, err := q.RenewLease(t.Context(), renewalOf("me", job, 1, 60))
		if n != 0 || err != nil {
			t.Errorf("RenewLease = %d, %v", n, err)
		}
		terms := `[{"job_name": "` + job + `", "token": 1}]`
		rows, err := q.RenewLeases(t.Context(), renewalsOf("me", terms, 60))
		if len(rows) != 0 || err != nil {
			t.Errorf("RenewLeases = %+v, %v", rows, err)
		}
		if after := row(t, admin); after != before {
			t.Errorf("the row was %s and is %s", before, after)
		}
	})
}

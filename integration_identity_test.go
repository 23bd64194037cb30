package pgleader_test

import (
	"database/sql"
	"testing"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

func TestElectorsWithOneHolderNameAreNotTakenForOne(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		cfg := slow
		cfg.Holder = "worker-1"
		leads := acquire(t, newElector(t, pool, cfg), job)
		refused(t, newElector(t, pool, cfg), job)
		restarted := newElector(t, pool, cfg) // does not inherit from its predecessor
		refused(t, restarted, job)
		resign(t, leads)
		if term := acquire(t, restarted, job); term.Token() != 2 {
			t.Errorf("token %d, want 2", term.Token())
		}
		refused(t, newElector(t, pool, cfg), job)
	})
}

func TestHolderIsComparedAsAWhole(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		q := db.New(pool)
		const holder = "web-10"
		got, err := q.AcquireLease(t.Context(), db.AcquireLeaseParams{Holder: holder, JobName: job, TTLSeconds: 3600})
		if err != nil || !got.Acquired {
			t.Fatalf("AcquireLease = %+v, %v", got, err)
		}
		before := row(t, pool)
		for _, other := range []string{"web-1", "web-100", "WEB-10", "web-10 ", "web-1%", "web-1_", "web%"} {
			if got, err := q.AcquireLease(t.Context(), db.AcquireLeaseParams{Holder: other, JobName: job, TTLSeconds: 3600}); err != nil || got.Acquired {
				t.Errorf("AcquireLease by %q = %+v, %v", other, got, err)
			}
			if n, err := q.RenewLease(t.Context(), db.RenewLeaseParams{Holder: other, JobName: job, Token: 1, TTLSeconds: 60}); err != nil || n != 0 {
				t.Errorf("RenewLease by %q = %d, %v", other, n, err)
			}
			rows, err := q.RenewLeases(t.Context(), db.RenewLeasesParams{Holder: other, Terms: `[{"job_name": "` + job + `", "token": 1}]`, TTLSeconds: 60})
			if err != nil || len(rows) != 0 {
				t.Errorf("RenewLeases by %q = %v, %v", other, rows, err)
			}
			if n, err := q.ReleaseLease(t.Context(), db.ReleaseLeaseParams{Holder: other, JobName: job, Token: 1}); err != nil || n != 0 {
				t.Errorf("ReleaseLease by %q = %d, %v", other, n, err)
			}
			if _, err := q.GuardLease(t.Context(), db.GuardLeaseParams{Holder: other, JobName: job, Token: 1}); err == nil {
				t.Errorf("GuardLease by %q is granted", other)
			}
		}
		if after := row(t, pool); after != before {
			t.Errorf("the row was %s and is %s", before, after)
		}
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
			eventually(t, "a report of the loss", func() bool { return len(seen.of(leader.Lost)) > 0 })
			if lost := seen.of(leader.Lost); len(lost) != 1 || lost[0].Token != old.Token() || lost[0].Job != job {
				t.Errorf("the losses reported are %+v, want one, of token %d", lost, old.Token())
			}
			refused(t, a, job)
			if after := row(t, admin); after != before {
				t.Errorf("the successor's row was %s and is %s", before, after)
			}
			mustExec(t, admin, `UPDATE leader_lease SET expires_at = clock_timestamp() WHERE job_name = $1`, job)
		}
	})
}

// overtake makes somebody else the leader of the job, whoever leads it.
func overtake(t *testing.T, admin *sql.DB) {
	t.Helper()
	mustExec(t, admin, `UPDATE leader_lease SET holder = 'somebody', token = token + 1, acquired_at = clock_timestamp(),
		renewed_at = clock_timestamp(), expires_at = clock_timestamp() + interval '1 hour' WHERE job_name = $1`, job)
}

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

func TestServicesWithDifferentJobsInOneDatabaseAllLead(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		a, b := newElector(t, pool, quick), newElector(t, pool, quick)
		first, second := campaign(t, a, "billing"), campaign(t, b, "mail")
		refused(t, a, "mail")
		refused(t, b, "billing")
		resign(t, first)
		stillLeads(t, second)
		campaign(t, b, "billing")
		stillLeads(t, second)
	})
}

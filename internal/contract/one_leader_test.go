package contract_test

import (
	"testing"
	"time"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/internal/pgtest"
)

// Containers of one image have the same host name, and everything in them is process 1: the
// processes have one holder name.
func TestProcessesWithOneNameTakeTurnsAlsoWhenOneIsKilled(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		mustExec(t, pool, `CREATE TABLE turn (
			id bigint GENERATED ALWAYS AS IDENTITY, pid int, token bigint, alone boolean)`)
		all := map[int]*process{}
		for range 3 {
			p := start(t, order{
				Program: "turns", Driver: driver, URL: url, DirectURL: direct(url),
				Job: job, Holder: "worker:1",
				TTL: 2 * time.Second, RetryEvery: 10 * time.Millisecond,
			})
			all[p.cmd.Process.Pid] = p
		}
		for _, p := range all {
			p.says(t, "ready")
		}
		for _, p := range all {
			p.tell(t, "go")
		}
		count := func() int { return scan[int](t, pool, `SELECT count(*) FROM turn`) }
		for len(all) > 0 {
			enough := count() + 30
			eventually(t, "turns", func() bool { return count() >= enough })
			// Whose turn was the last one is most likely in the middle of the next.
			pid := scan[int](t, pool, `SELECT pid FROM turn ORDER BY id DESC LIMIT 1`)
			leads := all[pid]
			if leads == nil {
				t.Fatalf("process %d took a turn after its end", pid)
			}
			if err := leads.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			receive(t, "the end of the process", leads.done)
			delete(all, pid)
			if len(all) > 0 {
				eventually(t, "turns of another process", func() bool {
					return scan[bool](t, pool, `SELECT count(*) > 0 FROM turn
						WHERE id > (SELECT max(id) FROM turn WHERE pid = $1)`, pid)
				})
			}
		}
		if n := scan[int](t, pool, `SELECT count(*) FROM turn WHERE NOT alone`); n != 0 {
			t.Errorf("in %d of %d turns somebody else was at work", n, count())
		}
		if n := scan[int](t, pool, `SELECT count(*)
			FROM (SELECT token, lag(token) OVER (ORDER BY id) AS last FROM turn) AS t
			WHERE token <= last`); n != 0 {
			t.Errorf("%d tokens do not grow", n)
		}
	})
}

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
		got, err := q.AcquireLease(t.Context(), claimOf(holder, job, 3600))
		if err != nil || !got.Acquired {
			t.Fatalf("AcquireLease = %+v, %v", got, err)
		}
		before := row(t, pool)
		others := []string{"web-1", "web-100", "WEB-10", "web-10 ", "web-1%", "web-1_", "web%"}
		for _, other := range others {
			got, err := q.AcquireLease(t.Context(), claimOf(other, job, 3600))
			if err != nil || got.Acquired {
				t.Errorf("AcquireLease by %q = %+v, %v", other, got, err)
			}
			if n, err := q.RenewLease(t.Context(), renewalOf(other, job, 1, 60)); err != nil || n != 0 {
				t.Errorf("RenewLease by %q = %d, %v", other, n, err)
			}
			terms := `[{"job_name": "` + job + `", "token": 1}]`
			rows, err := q.RenewLeases(t.Context(), renewalsOf(other, terms, 60))
			if err != nil || len(rows) != 0 {
				t.Errorf("RenewLeases by %q = %v, %v", other, rows, err)
			}
			if n, err := q.ReleaseLease(t.Context(), releaseOf(other, job, 1)); err != nil || n != 0 {
				t.Errorf("ReleaseLease by %q = %d, %v", other, n, err)
			}
			guard := db.GuardLeaseParams{Holder: other, JobName: job, Token: 1}
			if _, err := q.GuardLease(t.Context(), guard); err == nil {
				t.Errorf("GuardLease by %q is granted", other)
			}
		}
		if after := row(t, pool); after != before {
			t.Errorf("the row was %s and is %s", before, after)
		}
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

package pgleader_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

func TestKilledLeaderIsSucceededAfterItsTTL(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		p := start(t, order{Program: "lead", Driver: driver, URL: url, Job: job, TTL: 2 * time.Second})
		p.says(t, "elected 1")
		eventuallyRenewed(t, pool, job, 1)
		refused(t, newElector(t, pool, slow), job)
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		receive(t, "the end of the process", p.done)
		end := scan[time.Time](t, pool, `SELECT expires_at FROM leader_lease`)
		next := campaign(t, newElector(t, pool, slow), job)
		if next.Token() != 2 {
			t.Errorf("token %d, want 2", next.Token())
		}
		if began := scan[time.Time](t, pool, `SELECT acquired_at FROM leader_lease`); began.Before(end) {
			t.Errorf("the successor leads from %v on, while the lease lasts until %v", began, end)
		}
	})
}

func TestTerminatedIdleLeaderIsSucceededAtOnce(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		p := start(t, order{Program: "lead", Driver: driver, URL: url, Job: job, TTL: 10 * time.Minute})
		p.says(t, "elected 1")
		won := make(chan *leader.Term, 1)
		var seen events
		follower := newElector(t, pool, leader.Config{TTL: 10 * time.Minute, OnEvent: seen.add}) // looks every 1.5 s all the same
		go func() {
			term, err := follower.Campaign(t.Context(), job)
			if err != nil {
				t.Error(err)
			}
			won <- term
		}()
		eventually(t, "the follower waits", func() bool { return len(seen.of(leader.Waiting)) == 1 })
		sent := time.Now()
		p.signal(t, syscall.SIGTERM)
		next := receive(t, "the handover", won)
		// It takes up to 1.9 s on a machine that has time for it. The bound is there to tell that from any share of the TTL.
		took := time.Since(sent)
		t.Logf("the handover took %v", took)
		if took > 10*time.Second {
			t.Errorf("the handover took %v", took)
		}
		p.says(t, "bye")
		p.exits(t)
		resign(t, next)
	})
}

func TestLeaderStoppedForTwoTTLIsRefusedStepsDownAndCampaignsAgain(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		mustExec(t, pool, `CREATE TABLE report (id bigint GENERATED ALWAYS AS IDENTITY, token bigint)`)
		p := start(t, order{Program: "lead", Driver: driver, URL: url, Job: job, TTL: 2 * time.Second, RetryEvery: 50 * time.Millisecond})
		p.says(t, "elected 1")
		p.tell(t, "write")
		p.says(t, "written 1")

		p.signal(t, syscall.SIGSTOP)
		stopped := scan[time.Time](t, pool, clock)
		next := campaign(t, newElector(t, pool, quick), job)
		if err := guardedWrite(pool, next); err != nil {
			t.Fatal(err)
		}
		clockPast(t, pool, stopped, "4 s")
		p.signal(t, syscall.SIGCONT)
		p.says(t, "refused 1")
		p.says(t, "lost 1")

		resign(t, next)
		p.says(t, "elected 3")
		p.tell(t, "write")
		p.says(t, "written 3")
		if tokens := scan[string](t, pool, `SELECT string_agg(token::text, ' ' ORDER BY id) FROM report`); tokens != "1 2 3" {
			t.Errorf("the writes have the tokens %s, want 1 2 3", tokens)
		}
		p.signal(t, syscall.SIGTERM)
		p.says(t, "bye")
		p.exits(t)
	})
}

// Containers of one image have the same host name, and everything in them is process 1: the processes have one holder name.
func TestProcessesWithOneNameTakeTurnsAlsoWhenOneIsKilled(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		mustExec(t, pool, `CREATE TABLE turn (id bigint GENERATED ALWAYS AS IDENTITY, pid int, token bigint, alone boolean)`)
		all := map[int]*process{}
		for range 3 {
			p := start(t, order{
				Program: "turns", Driver: driver, URL: url, DirectURL: direct(url), Job: job, Holder: "worker:1",
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
			pid := scan[int](t, pool, `SELECT pid FROM turn ORDER BY id DESC LIMIT 1`) // most likely in the middle of the next
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
					return scan[bool](t, pool, `SELECT count(*) > 0 FROM turn WHERE id > (SELECT max(id) FROM turn WHERE pid = $1)`, pid)
				})
			}
		}
		if n := scan[int](t, pool, `SELECT count(*) FROM turn WHERE NOT alone`); n != 0 {
			t.Errorf("in %d of %d turns somebody else was at work", n, count())
		}
		if n := scan[int](t, pool, `SELECT count(*) FROM (SELECT id, token, lag(token) OVER (ORDER BY id) AS last FROM turn) AS t WHERE token <= last`); n != 0 {
			t.Errorf("%d tokens do not grow", n)
		}
	})
}

func TestThousandCyclesLeaveNoGoroutineAndNoConnection(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		for _, conns := range []int{0, 1} { // 0 means no limit
			name := fmt.Sprintf("at-most-%d", conns)
			p := start(t, order{Program: "cycles", Driver: driver, URL: named(t, url, name), Job: name, MaxConns: conns})
			connections := func() int {
				return scan[int](t, pool, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1`, name)
			}
			var before, after struct{ goroutines, open, used int }
			if _, err := fmt.Sscan(p.says(t, "before"), &before.goroutines, &before.open, &before.used); err != nil {
				t.Fatal(err)
			}
			for n := range 10 {
				p.says(t, fmt.Sprintf("cycle %d00", n+1))
			}
			if _, err := fmt.Sscan(p.says(t, "after"), &after.goroutines, &after.open, &after.used); err != nil {
				t.Fatal(err)
			}
			if after.goroutines > before.goroutines {
				t.Errorf("%s: %d goroutines before, %d after", name, before.goroutines, after.goroutines)
			}
			if after.open != 1 || after.used != 0 || connections() != 1 {
				t.Errorf("%s: %d connections are open, %d in use, %d at the server; want 1, 0, 1", name, after.open, after.used, connections())
			}
			if token := tokenOf(t, pool, name); token != 1001 {
				t.Errorf("%s: token %d, want 1001", name, token)
			}
			p.tell(t, "end")
			p.exits(t)
		}
	})
}

func TestProcessTimeZoneChangesNoInstant(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		acquire(t, newElector(t, pool, slow), job)
		truth := scan[string](t, pool, `SELECT concat_ws(' ', (extract(epoch FROM acquired_at) * 1000000)::bigint,
			(extract(epoch FROM renewed_at) * 1000000)::bigint, (extract(epoch FROM expires_at) * 1000000)::bigint) FROM leader_lease`)
		tokyo := withParam(t, url, "timezone", "Asia/Tokyo")
		p := start(t, order{Program: "leases", Driver: driver, URL: tokyo}, "TZ=America/New_York")
		if got, want := p.says(t, "lease"), truth+" America/New_York"; got != want {
			t.Errorf("the lease's instants are %s, want %s", got, want)
		}
		p.exits(t)
	})
}

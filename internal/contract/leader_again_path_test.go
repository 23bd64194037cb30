package contract_test

import (
	"context"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

func TestLeaderCampaignsAgainWhenThePathIsBack(t *testing.T) {
	t.Parallel()
	ways := []struct {
		name string
		back func(*pgtest.Proxy)
		dead bool
	}{
		{"held bytes arrive", (*pgtest.Proxy).Thaw, false},
		{"old connections stay dead", func(p *pgtest.Proxy) { p.FreezeOpen(); p.Thaw() }, true},
	}
	withEachDriver(t, func(t *testing.T, driver, url string) {
		j := keepJournal(t, url)
		together(t, len(ways), func(i int) string { return ways[i].name }, func(t *testing.T, i int) {
			job := ways[i].name
			proxy := pgtest.NewProxy(t, url)
			pool := pgtest.Open(t, driver, proxy.URL)
			terms := running(t, newElector(t, pool, frozenConfig), job)
			first := follow(receive(t, "election of A", terms))
			successor := campaigning(t, frozenElector(t, driver, url), job)

			proxy.Freeze()
			tenures := []tenure{receive(t, "end of A's term", first)}
			next := receive(t, "election of B", successor)
			second := follow(next)
			<-time.After(frozenTTL) // A goes on trying
			hanging, connections := pool.Stats().InUse, proxy.Connections()
			if hanging > maxHanging {
				t.Errorf("%d calls hang in the driver, want at most %d", hanging, maxHanging)
			}
			// lib/pq opens another one to cancel a query, and hangs there too.
			if connections > 2*maxHanging {
				t.Errorf("%d connections are open, want at most %d", connections, 2*maxHanging)
			}
			t.Logf("%d calls hang in the driver, %d connections are open", hanging, connections)

			ways[i].back(proxy)
			_ = next.Resign() // or its lease expires
			tenures = append(tenures, receive(t, "end of B's term", second))
			again := receive(t, "second election of A", terms)
			third := follow(again)
			eventually(t, "two renewals by A", func() bool { return j.renewals(t, job, again.Token()) >= 2 })
			if !ways[i].dead {
				eventually(t, "return of the old calls", func() bool { return pool.Stats().InUse <= 1 })
			} else if driver == "postgres" && pool.Stats().InUse == 0 {
				t.Error("the driver holds no call: the test shows nothing")
			}
			_ = again.Resign() // or its lease expires
			j.check(t, append(tenures, receive(t, "end of A's second term", third))...)
		})
	})
}

// maxHanging is how many connections one job may cost that a driver keeps beyond their time: those
// of a term's last renewals and of its release, and those of its candidate.
const maxHanging = 15

// New connections pass all the time: the leader opens one before its trust ends.
func TestLeaderKeepsItsTermWhenOnlyItsConnectionDies(t *testing.T) {
	t.Parallel()
	// One renewal may take a third of the TTL, until it is given up. The short interval leaves time
	// for a login on a busy machine.
	config := leader.Config{TTL: 5 * time.Second, RenewEvery: 200 * time.Millisecond}
	withEachDriver(t, func(t *testing.T, driver, url string) {
		const job = "nightly-report"
		j := keepJournal(t, url)
		proxy := pgtest.NewProxy(t, url)
		term := campaign(t, newElector(t, pgtest.Open(t, driver, proxy.URL), config), job)
		held := follow(term)
		proxy.FreezeOpen()
		frozen := time.Now()
		eventually(t, "renewal over a new connection", func() bool {
			return j.renewedAfter(t, job, term.Token(), frozen.Add(config.TTL/3))
		})
		if err := context.Cause(term.Context()); err != nil {
			t.Errorf("the term ended: %v", err)
		}
		go func() { _ = term.Resign() }() // what counts is the end of its context, before its lease
		j.check(t, within(t, frozenSlack, "end of the term", held))
	})
}

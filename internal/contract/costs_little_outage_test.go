package contract_test

import (
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

// A path that is gone for long is tried at a measured pace, whether connections are swallowed or
// refused.
func TestBrokenPathIsNotHammered(t *testing.T) {
	t.Parallel()
	const (
		jobs       = 10
		long       = 3 * time.Second
		retryEvery = 50 * time.Millisecond
	)
	ways := []struct {
		name        string
		gone        func(*pgtest.Proxy)
		back        func(*pgtest.Proxy) error
		maxDialling int64
	}{
		// What a driver keeps hanging is let go only a few times, then at doubling intervals. lib/pq
		// dials again to cancel.
		{"frozen", (*pgtest.Proxy).Freeze, func(p *pgtest.Proxy) error { p.Thaw(); return nil }, 2 * 25},
		// One look per RetryEvery for all candidates; before, each asks for the lease at most three
		// times; and the renewals.
		{"refused", (*pgtest.Proxy).Cut, (*pgtest.Proxy).Restore, 2*int64(long/retryEvery) + 3*jobs},
	}
	withEachDriver(t, func(t *testing.T, driver, url string) {
		j := keepJournal(t, url)
		together(t, len(ways), func(i int) string { return ways[i].name }, func(t *testing.T, i int) {
			way := ways[i]
			proxy := pgtest.NewProxy(t, url)
			var d dialer
			pool := d.open(t, driver, proxy.URL)
			e := newElector(t, pool, leader.Config{TTL: frozenTTL, RetryEvery: retryEvery})
			term := receive(t, "election", campaigning(t, e, way.name))
			held := follow(term)
			before := d.dialled.Load()
			way.gone(proxy)
			others := make([]<-chan *leader.Term, jobs)
			for k := range others {
				others[k] = campaigning(t, e, way.name+string(rune('A'+k)))
			}
			<-time.After(long)
			dialled, stats := d.dialled.Load()-before, pool.Stats()
			t.Logf("%d connection attempts in %v, %d hang in the driver", dialled, long, stats.InUse)
			if dialled > way.maxDialling {
				t.Errorf("%d connection attempts in %v, want at most %d", dialled, long, way.maxDialling)
			}
			if stats.InUse > 25 {
				t.Errorf("%d calls hang in the driver, want at most 25", stats.InUse)
			}
			if err := way.back(proxy); err != nil {
				t.Fatal(err)
			}
			for k := range others {
				receive(t, "election after the path is back", others[k])
			}
			j.check(t, receive(t, "end of the term", held))
		})
	})
}

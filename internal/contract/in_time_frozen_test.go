package contract_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

func TestFrozenLeaderStepsDownBeforeItsLeaseEnds(t *testing.T) {
	t.Parallel()
	const phases = 8
	interval := frozenTTL / 3
	// freezePath reports whether a renewal took effect after the freeze.
	freezePath := func(
		t *testing.T, driver, url, job string, j *journal, b *leader.Elector,
		phase int, freeze func(*pgtest.Proxy),
	) bool {
		proxy := pgtest.NewProxy(t, url)
		a := frozenElector(t, driver, proxy.URL)
		term := receive(t, "election of A", campaigning(t, a, job))
		held := follow(term)
		if phase%2 == 1 { // several terms are renewed by another statement
			receive(t, "second election of A", campaigning(t, a, job+", second"))
		}
		successor := campaigning(t, b, job)

		// The first renewal comes an interval after the election. The freeze comes in the interval after
		// that.
		<-time.After(interval + interval*time.Duration(2*phase+1)/(2*phases))
		freeze(proxy)
		frozen := time.Now()

		next := receive(t, "election of B", successor)
		n := within(t, frozenSlack, "end of A's term when B has been elected", held)
		if !errors.Is(n.Cause, leader.ErrLost) {
			t.Errorf("A's term ended with the cause %v, want ErrLost", n.Cause)
		}
		j.check(t, n)
		_ = next.Resign() // only to spare the machine
		return j.renewedAfter(t, job, term.Token(), frozen)
	}
	withEachDriver(t, func(t *testing.T, driver, url string) {
		j := keepJournal(t, url)
		b := frozenElector(t, driver, url)
		name := func(i int) string { return fmt.Sprintf("path in phase %d of %d", i, phases) }
		together(t, phases, name, func(t *testing.T, i int) {
			freezePath(t, driver, url, name(i), j, b, i, (*pgtest.Proxy).Freeze)
		})

		// With replies frozen, the server carries out a renewal that its client never hears of. lib/pq
		// has to send parameters in binary for that; otherwise it takes two round trips for a statement,
		// and stops halfway.
		var acted atomic.Int64
		name = func(i int) string { return fmt.Sprintf("replies in phase %d of %d", i, phases) }
		together(t, phases, name, func(t *testing.T, i int) {
			url := url
			if driver == "postgres" && i%4 < 2 {
				url += "&binary_parameters=yes"
			}
			if freezePath(t, driver, url, name(i), j, b, i, (*pgtest.Proxy).FreezeReplies) {
				acted.Add(1)
			}
		})
		if acted.Load() == 0 {
			t.Error("no renewal took effect while its reply was frozen: the test shows nothing")
		}
	})
}

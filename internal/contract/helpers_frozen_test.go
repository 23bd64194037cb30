package contract_test

import (
	"sync"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

// The connection is up, but no bytes pass: a switch, a NAT table or a proxy has lost the path, and
// nobody is told. A driver can't tell it from a slow server, and lib/pq waits for the reply without
// any limit (lib/pq#620). The old leader has to notice by itself.
//
// Each test has a leader whose path breaks, a rival with a path of its own, and a journal of what
// the database saw. Times are compared by the database's clock.

const (
	frozenTTL   = 2 * time.Second // a third of it is the renewal interval, a tenth the margin
	frozenRetry = 200 * time.Millisecond
	frozenSlack = 3 * time.Second // for the test to see what must have happened
)

var frozenConfig = leader.Config{TTL: frozenTTL, RetryEvery: frozenRetry}

// frozenElector is an elector on a pool of its own, which has one connection.
func frozenElector(t *testing.T, driver, url string) *leader.Elector {
	t.Helper()
	pool := pgtest.Open(t, driver, url)
	if err := pool.Ping(); err != nil {
		t.Fatal(err)
	}
	return newElector(t, pool, frozenConfig)
}

// withEachDriver is forEachDriver for tests that mostly wait: both drivers at the same time, also
// where t.Parallel allows only one. It goes past the pooler: these tests break the path themselves.
func withEachDriver(t *testing.T, test func(t *testing.T, driver, url string)) {
	t.Helper()
	name := func(i int) string { return pgtest.Drivers[i] }
	together(t, len(pgtest.Drivers), name, func(t *testing.T, i int) {
		test(t, pgtest.Drivers[i], pgtest.NewURL(t))
	})
}

// together runs n subtests at the same time. t.Parallel would run only as many as there are
// processors, but they wait.
func together(t *testing.T, n int, name func(int) string, test func(t *testing.T, i int)) {
	t.Helper()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { t.Run(name(i), func(t *testing.T) { test(t, i) }) })
	}
	all.Wait()
}

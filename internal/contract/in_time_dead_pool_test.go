package contract_test

import (
	"database/sql"
	"testing"

	"github.com/pgleader/pgleader/internal/pgtest"
)

func TestPoolWhoseConnectionsAllDieCostsTheTermInTime(t *testing.T) {
	t.Parallel()
	withEachDriver(t, func(t *testing.T, driver, url string) {
		j := keepJournal(t, url)
		names := []string{"pool of 1", "pool of 2"}
		together(t, len(names), func(i int) string { return names[i] }, func(t *testing.T, i int) {
			job := names[i]
			proxy := pgtest.NewProxy(t, url)
			pool := pgtest.Open(t, driver, proxy.URL+connectTimeout)
			fill(t, pool, i+1)
			a := newElector(t, pool, frozenConfig)
			terms := running(t, a, job)
			first := follow(receive(t, "election of A", terms))
			successor := campaigning(t, frozenElector(t, driver, url), job)

			proxy.Freeze()
			n := receive(t, "end of A's term", first)
			next := receive(t, "election of B", successor)
			j.check(t, n)
			proxy.FreezeOpen()
			proxy.Thaw()
			_ = next.Resign() // or its lease expires
			if driver == "postgres" {
				// lib/pq gives no connection back, so the pool has none left. That is told, not waited for.
				if _, err := a.Leases(t.Context()); err == nil || pool.Stats().InUse != i+1 {
					t.Errorf("%d connections hang, and Leases returns %v; want %d and an error",
						pool.Stats().InUse, err, i+1)
				}
				proxy.Cut() // the network gives the old connections up
				if err := proxy.Restore(); err != nil {
					t.Fatal(err)
				}
			}
			receive(t, "second election of A", terms)
		})
	})
}

// connect_timeout is needed by a pool of limited size: when somebody waits for a connection,
// package database/sql opens one for all that wait, without any of their contexts, and in a frozen
// path that call never ends, on pgx neither.
const connectTimeout = "&connect_timeout=4"

// fill opens the connections of a pool, up to its size.
func fill(t *testing.T, pool *sql.DB, size int) {
	t.Helper()
	pool.SetMaxOpenConns(size)
	pool.SetMaxIdleConns(size)
	for range size {
		conn, err := pool.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
}

// The remedy for lib/pq, which has no setting for it: a dialer that limits each read frees what
// hangs.
func TestReadLimitFreesAPoolOfOneFromItsDeadConnection(t *testing.T) {
	t.Parallel()
	withEachDriver(t, func(t *testing.T, driver, url string) {
		const job = "nightly-report"
		proxy := pgtest.NewProxy(t, url)
		pool := (&dialer{readLimit: frozenTTL / 2}).open(t, driver, proxy.URL)
		fill(t, pool, 1)
		terms := running(t, newElector(t, pool, frozenConfig), job)
		first := receive(t, "election", terms)
		proxy.Freeze()
		receive(t, "end of the term", first.Context().Done())
		proxy.FreezeOpen()
		proxy.Thaw()
		receive(t, "second election", terms)
	})
}

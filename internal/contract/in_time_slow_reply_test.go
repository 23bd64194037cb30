package contract_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

// The reply to a claim or a renewal takes its time, and then the path freezes: trust has begun when
// the request was sent, for the lease may have begun then.
func TestSlowReplyAndThenFrozenPathLeaveNoTrustBeyondTheLease(t *testing.T) {
	t.Parallel()
	const (
		ttl   = 3 * time.Second         // a reply may take a second
		delay = 650 * time.Millisecond  // more than the margin
		every = 1500 * time.Millisecond // room for the test to see a renewal and act before the next
	)
	withEachDriver(t, func(t *testing.T, driver, url string) {
		j := keepJournal(t, url)
		if driver == "postgres" {
			url += "&binary_parameters=yes" // so that the statement takes effect before its first reply
		}
		start := func(t *testing.T, job string) (*pgtest.Proxy, *sql.DB, *leader.Elector, *leader.Term) {
			proxy := pgtest.NewProxy(t, url)
			pool := openWithoutPing(t, driver, proxy.URL)
			e := newElector(t, pool, leader.Config{TTL: ttl, RenewEvery: every})
			return proxy, pool, e, receive(t, "election", campaigning(t, e, job))
		}
		kinds := []string{"claim", "renewal"}
		together(t, len(kinds), func(i int) string { return kinds[i] }, func(t *testing.T, i int) {
			job := "slow " + kinds[i]
			var n tenure
			if kinds[i] == "claim" {
				proxy, _, e, other := start(t, "another job") // pgx prepares the statement
				_ = other.Resign()
				proxy.FreezeReplies()
				won := campaigning(t, e, job)
				eventually(t, "claim", func() bool { return len(j.entries(t, job)) > 0 })
				<-time.After(delay)
				proxy.Thaw()
				held := follow(receive(t, "election after a slow reply", won))
				proxy.Freeze()
				n = receive(t, "end of the term", held)
			} else {
				proxy, pool, _, term := start(t, job)
				answered := func() bool { return pool.Stats().InUse == 0 }
				held := follow(term)
				eventually(t, "first renewal", func() bool { return j.renewals(t, job, term.Token()) >= 1 })
				eventually(t, "its reply", answered)
				before := j.renewals(t, job, term.Token())
				proxy.FreezeReplies()
				eventually(t, "next renewal", func() bool { return j.renewals(t, job, term.Token()) > before })
				<-time.After(delay)
				proxy.Thaw()
				eventually(t, "the slow reply", answered)
				proxy.Freeze()
				n = receive(t, "end of the term", held)
			}
			j.check(t, n)
		})
	})
}

// openWithoutPing is pgtest.Open for a test that holds replies back: pgx pings a connection that
// was idle for a second before it sends a statement, and would wait for that reply first.
func openWithoutPing(t *testing.T, driver, url string) *sql.DB {
	t.Helper()
	if driver != "pgx" {
		return pgtest.Open(t, driver, url)
	}
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	never := func(context.Context, stdlib.ShouldPingParams) bool { return false }
	pool := stdlib.OpenDB(*config, stdlib.OptionShouldPing(never))
	t.Cleanup(func() { pool.Close() })
	return pool
}

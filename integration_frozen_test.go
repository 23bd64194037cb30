package pgleader_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

// The connection is up, but no bytes pass: a switch, a NAT table or a proxy has lost the path, and nobody is told. A driver can't
// tell it from a slow server, and lib/pq waits for the reply without any limit (lib/pq#620). The old leader has to notice by itself.
//
// Each test has a leader whose path breaks, a rival with a path of its own, and a journal of what the database saw. Times are
// compared by the database's clock.

const (
	frozenTTL   = 2 * time.Second // a third of it is the renewal interval, a tenth the margin
	frozenRetry = 200 * time.Millisecond
	frozenLimit = 30 * time.Second // for what must happen at all
	frozenSlack = 3 * time.Second  // for the test to see what must have happened
)

var frozenConfig = leader.Config{TTL: frozenTTL, RetryEvery: frozenRetry}

var discardLog = slog.New(slog.DiscardHandler)

// frozenElector is an elector on a pool of its own, which has one connection.
func frozenElector(t *testing.T, driver, url string) *leader.Elector {
	t.Helper()
	pool := pgtest.Open(t, driver, url)
	if err := pool.Ping(); err != nil {
		t.Fatal(err)
	}
	return electorOn(t, pool, frozenConfig)
}

// openWithoutPing is pgtest.Open for a test that holds replies back: pgx pings a connection that was idle for a second before it sends
// a statement, and would wait for that reply first.
func openWithoutPing(t *testing.T, driver, url string) *sql.DB {
	t.Helper()
	if driver != "pgx" {
		return pgtest.Open(t, driver, url)
	}
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	pool := stdlib.OpenDB(*config, stdlib.OptionShouldPing(func(context.Context, stdlib.ShouldPingParams) bool { return false }))
	t.Cleanup(func() { pool.Close() })
	return pool
}

func electorOn(t *testing.T, pool *sql.DB, config leader.Config) *leader.Elector {
	t.Helper()
	config.Logger = discardLog
	e, err := leader.New(pool, config)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// within receives, or fails the test.
func within[T any](t *testing.T, limit time.Duration, from <-chan T, what string) T {
	t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case v := <-from:
		return v
	case <-timer.C:
		t.Fatalf("%s: not within %v", what, limit)
		panic("unreachable")
	}
}

// eventually polls a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(frozenLimit)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, frozenLimit)
		}
		<-tick.C
	}
}

// together runs n subtests at the same time. t.Parallel would run only as many as there are processors, but they wait.
func together(t *testing.T, n int, name func(int) string, test func(t *testing.T, i int)) {
	t.Helper()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { t.Run(name(i), func(t *testing.T) { test(t, i) }) })
	}
	all.Wait()
}

// withEachDriver is forEachDriver for tests that mostly wait: both drivers at the same time, also where t.Parallel allows only one.
func withEachDriver(t *testing.T, test func(t *testing.T, driver, url string)) {
	t.Helper()
	together(t, len(pgtest.Drivers), func(i int) string { return pgtest.Drivers[i] }, func(t *testing.T, i int) {
		test(t, pgtest.Drivers[i], pgtest.NewURL(t))
	})
}

// campaigning delivers the terms to which e is elected by single campaigns.
func campaigning(t *testing.T, e *leader.Elector, job string) <-chan *leader.Term {
	won := make(chan *leader.Term, 1)
	go func() {
		term, err := e.Campaign(t.Context(), job)
		if err != nil && t.Context().Err() == nil {
			t.Errorf("campaign: %v", err)
		}
		if term != nil {
			won <- term
		}
	}()
	return won
}

// running leads the job by Run for as long as the test lasts, and delivers each term.
func running(t *testing.T, e *leader.Elector, job string) <-chan *leader.Term {
	terms := make(chan *leader.Term, 100)
	go func() {
		_ = e.Run(t.Context(), job, func(ctx context.Context, term *leader.Term) error {
			terms <- term
			<-ctx.Done()
			return nil
		})
	}()
	return terms
}

func TestFrozenLeaderStepsDownBeforeItsLeaseEnds(t *testing.T) {
	t.Parallel()
	const phases = 8
	interval := frozenTTL / 3
	freezePath := func(t *testing.T, driver, url, job string, j *journal, b *leader.Elector, phase int, freeze func(*pgtest.Proxy)) (acted bool) {
		proxy := pgtest.NewProxy(t, url)
		a := frozenElector(t, driver, proxy.URL)
		term := within(t, frozenLimit, campaigning(t, a, job), "election of A")
		held := follow(term)
		if phase%2 == 1 { // several terms are renewed by another statement
			within(t, frozenLimit, campaigning(t, a, job+", second"), "second election of A")
		}
		successor := campaigning(t, b, job)

		// The first renewal comes an interval after the election. The freeze comes in the interval after that.
		<-time.After(interval + interval*time.Duration(2*phase+1)/(2*phases))
		freeze(proxy)
		frozen := time.Now()

		next := within(t, frozenLimit, successor, "election of B")
		n := within(t, frozenSlack, held, "end of A's term when B has been elected")
		if !errors.Is(n.Cause, leader.ErrLost) {
			t.Errorf("A's term ended with the cause %v, want ErrLost", n.Cause)
		}
		j.check(t, n)
		acted = j.renewedAfter(t, job, term.Token(), frozen)
		_ = next.Resign() // only to spare the machine
		return acted
	}
	withEachDriver(t, func(t *testing.T, driver, url string) {
		j := keepJournal(t, url)
		b := frozenElector(t, driver, url)
		name := func(i int) string { return fmt.Sprintf("path in phase %d of %d", i, phases) }
		together(t, phases, name, func(t *testing.T, i int) {
			freezePath(t, driver, url, name(i), j, b, i, (*pgtest.Proxy).Freeze)
		})

		// With replies frozen, the server carries out a renewal that its client never hears of. lib/pq has to send parameters in
		// binary for that; otherwise it takes two round trips for a statement, and stops halfway.
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

// The reply to a claim or a renewal takes its time, and then the path freezes: trust has begun when the request was sent, for the
// lease may have begun then.
func TestSlowReplyAndThenFrozenPathLeaveNoTrustBeyondTheLease(t *testing.T) {
	t.Parallel()
	const (
		ttl   = 3 * time.Second         // a reply may take a second
		delay = 650 * time.Millisecond  // more than the margin
		every = 1500 * time.Millisecond // most of it is room for the test to see a renewal and act before the next
	)
	withEachDriver(t, func(t *testing.T, driver, url string) {
		j := keepJournal(t, url)
		if driver == "postgres" {
			url += "&binary_parameters=yes" // so that the statement takes effect before its first reply
		}
		start := func(t *testing.T, job string) (*pgtest.Proxy, *leader.Elector, *leader.Term) {
			proxy := pgtest.NewProxy(t, url)
			e := electorOn(t, openWithoutPing(t, driver, proxy.URL), leader.Config{TTL: ttl, RenewEvery: every})
			return proxy, e, within(t, frozenLimit, campaigning(t, e, job), "election")
		}
		kinds := []string{"claim", "renewal"}
		together(t, len(kinds), func(i int) string { return kinds[i] }, func(t *testing.T, i int) {
			job := "slow " + kinds[i]
			var n tenure
			if kinds[i] == "claim" {
				proxy, e, other := start(t, "another job") // pgx prepares the statement
				_ = other.Resign()
				proxy.FreezeReplies()
				won := campaigning(t, e, job)
				eventually(t, "claim", func() bool { return len(j.entries(t, job)) > 0 })
				<-time.After(delay)
				proxy.Thaw()
				held := follow(within(t, frozenLimit, won, "election after a slow reply"))
				proxy.Freeze()
				n = within(t, frozenLimit, held, "end of the term")
			} else {
				proxy, _, term := start(t, job)
				held := follow(term)
				eventually(t, "first renewal", func() bool { return j.renewals(t, job, term.Token()) >= 1 })
				<-time.After(ttl / 10) // its reply has arrived
				before := j.renewals(t, job, term.Token())
				proxy.FreezeReplies()
				eventually(t, "next renewal", func() bool { return j.renewals(t, job, term.Token()) > before })
				<-time.After(delay)
				proxy.Thaw()
				<-time.After(30 * time.Millisecond) // the slow reply arrives
				proxy.Freeze()
				n = within(t, frozenLimit, held, "end of the term")
			}
			j.check(t, n)
		})
	})
}

func TestFrozenProcessNeverLeadsBesideItsSuccessor(t *testing.T) {
	t.Parallel()
	withEachDriver(t, func(t *testing.T, driver, url string) {
		const (
			job = "nightly-report"
			ttl = 5 * time.Second // room for a machine that is busy: A's first term must last until its path freezes
		)
		j := keepJournal(t, url)
		proxy := pgtest.NewProxy(t, url)
		order := workerOrder{Driver: driver, URL: proxy.URL, Job: job, TTL: ttl, RetryEvery: frozenRetry}
		a := startWorker(t, order)
		within(t, frozenLimit, a.elected, "election of A")
		order.URL = url
		b := startWorker(t, order)
		eventually(t, "renewal", func() bool { return j.renewals(t, job, 1) >= 1 })

		proxy.Freeze()
		first := within(t, frozenLimit, a.ended, "end of A's term")
		within(t, frozenLimit, b.elected, "election of B")
		<-time.After(ttl / 2) // A goes on trying
		proxy.Thaw()
		b.terminate(t)
		second := within(t, frozenLimit, b.ended, "end of B's term")
		within(t, frozenLimit, a.elected, "second election of A")
		eventually(t, "renewal", func() bool { return j.renewals(t, job, 3) >= 1 })
		a.terminate(t)
		third := within(t, frozenLimit, a.ended, "end of A's second term")
		j.check(t, first, second, third)
	})
}

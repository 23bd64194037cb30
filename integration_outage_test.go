package pgleader_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

// terminate ends the server's side of all connections of that name.
func terminate(t *testing.T, admin *sql.DB, name string) {
	t.Helper()
	if n := scan[int](t, admin, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = $1`, name); n == 0 {
		t.Errorf("there is no connection named %q", name)
	}
}

// leadsAfter is a channel of the elector's next term, after a check that the leader before knows of the end of its own.
func leadsAfter(t *testing.T, before *leader.Term, pool *sql.DB) <-chan *leader.Term {
	won := make(chan *leader.Term, 1)
	cfg := quick
	cfg.OnEvent = func(e leader.Event) {
		if e.Kind == leader.Elected && before.Context().Err() == nil {
			t.Errorf("a successor was elected beside a leader that takes itself for one")
		}
	}
	successor := newElector(t, pool, cfg)
	go func() {
		term, err := successor.Campaign(t.Context(), job)
		if err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
		won <- term
	}()
	return won
}

// watchEnd notes when the term ends. The function that it returns waits for that, and compares it with the lease's end by the
// database's clock, which may differ from this machine's.
func watchEnd(t *testing.T, term *leader.Term, admin *sql.DB) (endsBeforeLease func()) {
	t.Helper()
	end := endOf(t, term, admin)
	return func() {
		t.Helper()
		at := end()
		endsBefore(t, at, scan[time.Time](t, admin, `SELECT CASE token WHEN $2 THEN expires_at ELSE acquired_at END -- a successor has it already
			FROM leader_lease WHERE job_name = $1`, term.Job(), term.Token()))
	}
}

func endsBefore(t *testing.T, end, lease time.Time) {
	t.Helper()
	if !end.Before(lease) {
		t.Errorf("the term ended %v after its lease", end.Sub(lease))
	}
}

// endOf waits until the term is lost, and tells when it was, by the database's clock.
func endOf(t *testing.T, term *leader.Term, admin *sql.DB) func() time.Time {
	t.Helper()
	var ahead []time.Duration // of the database's clock, and up to a round trip more
	for range 10 {
		asked := time.Now()
		ahead = append(ahead, scan[time.Time](t, admin, clock).Sub(asked))
	}
	ended := make(chan time.Time, 1)
	context.AfterFunc(term.Context(), func() { ended <- time.Now() })
	return func() time.Time {
		t.Helper()
		endsWithLoss(t, term)
		return receive(t, "the end of the term", ended).Add(slices.Min(ahead))
	}
}

func TestTerminatedBackendsCostNoLeadership(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool, admin := pgtest.Open(t, driver, named(t, url, "victim")), pgtest.Open(t, driver, direct(url))
		a := newElector(t, pool, quick)
		term := acquire(t, a, job)
		won := leadsAfter(t, term, admin)
		for i := range 10 {
			if i == 5 {
				acquire(t, a, "another job") // from here on they are renewed together
			}
			terminate(t, admin, "victim")
			eventuallyRenewed(t, admin, job, 2)
		}
		stillLeads(t, term)
		resign(t, term)
		if next := receive(t, "the handover", won); next.Token() != term.Token()+1 {
			t.Errorf("token %d after %d", next.Token(), term.Token())
		}
	})
}

// A server that ends idle connections says so on each of them; the next attempt finds that in place of its answer.
func TestTerminatedIdleConnectionsCostNoAttempt(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool, admin := pgtest.Open(t, driver, named(t, url, "victim")), pgtest.Open(t, driver, direct(url))
		for n := range 10 {
			one, two := begin(t, pool, sql.LevelDefault), begin(t, pool, sql.LevelDefault)
			rollback(t, one)
			rollback(t, two)
			terminate(t, admin, "victim")
			eventually(t, "the connections end", func() bool {
				return scan[int](t, admin, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'victim'`) == 0
			})
			acquire(t, newElector(t, pool, slow), fmt.Sprint("job ", n))
		}
	})
}

func TestOutageShorterThanTTLKeepsLeadership(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		proxy := pgtest.NewProxy(t, url)
		pool, admin := pgtest.Open(t, driver, proxy.URL), pgtest.Open(t, driver, url)
		var seen events
		cfg := quick
		cfg.OnEvent = seen.add
		term := acquire(t, newElector(t, pool, cfg), job)
		for round := range 3 {
			proxy.Cut()
			eventually(t, "renewals fail", func() bool { return len(seen.of(leader.RenewFailed)) >= 5*(round+1) })
			if err := proxy.Restore(); err != nil {
				t.Fatal(err)
			}
			eventuallyRenewed(t, admin, job, 2)
		}
		stillLeads(t, term)
		if lost := seen.of(leader.Lost); len(lost) != 0 {
			t.Errorf("lost: %+v", lost)
		}
	})
}

func TestOutageLongerThanTTLEndsTermBeforeLease(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		proxy := pgtest.NewProxy(t, url)
		pool, admin := pgtest.Open(t, driver, proxy.URL), pgtest.Open(t, driver, url)
		e := newElector(t, pool, leader.Config{TTL: 5 * time.Second, RetryEvery: 50 * time.Millisecond})
		term := acquire(t, e, job)
		won := leadsAfter(t, term, admin)
		endsBeforeLease := watchEnd(t, term, admin)
		proxy.Cut()
		endsBeforeLease()
		next := receive(t, "the takeover", won)
		if err := proxy.Restore(); err != nil {
			t.Fatal(err)
		}
		resign(t, next)
		campaign(t, e, job) // without a restart
	})
}

func TestStarvedPoolEndsTermInTime(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool, admin := openPair(t, driver, url)
		pool.SetMaxOpenConns(2)
		e := newElector(t, pool, leader.Config{TTL: 5 * time.Second, RetryEvery: 50 * time.Millisecond})
		term := acquire(t, e, job)
		won := leadsAfter(t, term, admin)
		endsBeforeLease := watchEnd(t, term, admin)
		one, two := begin(t, pool, sql.LevelDefault), begin(t, pool, sql.LevelDefault) // the job's own work
		endsBeforeLease()
		next := receive(t, "the takeover", won)
		rollback(t, one)
		rollback(t, two)
		resign(t, next)
		campaign(t, e, job)
	})
}

// The connections of a pool may lead to what was the primary once. They are given up, or the elector would be stuck for ever.
func TestReadOnlyPhaseEndsTermAndElectorRecoversByItself(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool, admin := pgtest.Open(t, driver, named(t, url, "victim")), pgtest.Open(t, driver, direct(url))
		admin.SetMaxOpenConns(1) // a session from before the change stays as it is
		mustExec(t, admin, `SELECT 1`)
		pool.SetMaxIdleConns(5)
		var seen events
		e := newElector(t, pool, leader.Config{TTL: 1500 * time.Millisecond, RetryEvery: 50 * time.Millisecond, OnEvent: seen.add})
		ctx, cancel := context.WithCancel(t.Context())
		terms, ended := make(chan *leader.Term, 10), make(chan error, 1)
		go func() {
			ended <- e.Run(ctx, job, func(ctx context.Context, term *leader.Term) error {
				terms <- term
				<-ctx.Done()
				return nil
			})
		}()
		first := receive(t, "the first election", terms)

		alterDatabase(t, admin, `SET default_transaction_read_only = on`)
		if pgtest.Pooled() == "" {
			terminate(t, admin, "victim")
		}
		endsWithLoss(t, first)
		other := newElector(t, pool, quick)
		eventually(t, "claims are refused", func() bool {
			_, _, err := other.TryAcquire(t.Context(), "another job")
			return errors.Is(err, leader.ErrReadOnly)
		})
		clockPast(t, admin, scan[time.Time](t, admin, `SELECT expires_at FROM leader_lease`), "1 s")
		eventually(t, "a failed claim is reported", func() bool { return len(seen.of(leader.ClaimFailed)) > 0 })
		alterDatabase(t, admin, `RESET default_transaction_read_only`)
		if second := receive(t, "the second election", terms); second.Token() != 2 {
			t.Errorf("token %d, want 2", second.Token())
		}
		cancel()
		_ = receive(t, "the end of Run", ended)
	})
}

func TestStatementTimeoutIsRetriedAndLeavesPoolHealthy(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		admin := pgtest.Open(t, driver, withParam(t, direct(url), "statement_timeout", "0"))
		alterDatabase(t, admin, `SET statement_timeout = 50`)
		pool := pgtest.Open(t, driver, url)
		pool.SetMaxOpenConns(3)
		var seen events
		cfg := quick
		cfg.OnEvent = seen.add
		term := campaign(t, newElector(t, pool, cfg), job)
		eventuallyRenewed(t, admin, job, 1)

		lock := begin(t, admin, sql.LevelDefault)
		txExec(t, lock, `SELECT FROM leader_lease FOR UPDATE`)
		clockPast(t, admin, scan[time.Time](t, admin, clock), "200 ms")
		eventually(t, "renewals time out", func() bool {
			n := 0
			for _, failed := range seen.of(leader.RenewFailed) {
				if sqlState(failed.Err) == "57014" {
					n++
				}
			}
			return n >= 2
		})
		rollback(t, lock)
		eventuallyRenewed(t, admin, job, 3)
		stillLeads(t, term)

		resign(t, term)
		for range 3 { // every connection of the pool, each of them kept until the end
			conn, err := pool.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			eventually(t, "the connection answers", func() bool { // a busy machine may need more than 50 ms once
				var one int
				return conn.QueryRowContext(t.Context(), `SELECT 1`).Scan(&one) == nil && one == 1
			})
		}
	})
}

func TestLeaderIsFoundAfterEachOfHundredLosses(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool, admin := openPair(t, driver, url)
		ctx, cancel := context.WithCancel(t.Context())
		terms := make(chan *leader.Term, 10)
		ended := make(chan error, 2)
		cfg := leader.Config{TTL: 30 * time.Second, RenewEvery: 10 * time.Millisecond, RetryEvery: 10 * time.Millisecond}
		for range 2 {
			e := newElector(t, pool, cfg)
			go func() {
				ended <- e.Run(ctx, job, func(ctx context.Context, term *leader.Term) error {
					terms <- term
					<-ctx.Done()
					return nil
				})
			}()
		}
		for n := range 101 {
			term := receive(t, "an election", terms)
			if term.Token() != int64(n+1) {
				t.Errorf("token %d, want %d", term.Token(), n+1)
			}
			if n < 100 {
				expire(t, admin, job)
				endsWithLoss(t, term)
			}
		}
		cancel()
		for range 2 {
			_ = receive(t, "the end of Run", ended)
		}
	})
}

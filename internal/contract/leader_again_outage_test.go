package contract_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

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
			eventually(t, "renewals fail", func() bool {
				return len(seen.of(leader.EventRenewFailed)) >= 5*(round+1)
			})
			if err := proxy.Restore(); err != nil {
				t.Fatal(err)
			}
			eventuallyRenewed(t, admin, job, 2)
		}
		stillLeads(t, term)
		if lost := seen.of(leader.EventLost); len(lost) != 0 {
			t.Errorf("lost: %+v", lost)
		}
	})
}

func TestTerminatedBackendsCostNoLeadership(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool, admin := openVictim(t, driver, url)
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

// A server that ends idle connections says so on each of them; the next attempt finds that in place
// of its answer.
func TestTerminatedIdleConnectionsCostNoAttempt(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool, admin := openVictim(t, driver, url)
		for n := range 10 {
			one, two := begin(t, pool, sql.LevelDefault), begin(t, pool, sql.LevelDefault)
			rollback(t, one)
			rollback(t, two)
			terminate(t, admin, "victim")
			eventually(t, "the connections end", func() bool {
				return connectionsOf(t, admin, "victim") == 0
			})
			acquire(t, newElector(t, pool, slow), fmt.Sprint("job ", n))
		}
	})
}

// openVictim opens the database for a leader whose connections can be terminated, and for those who
// do it.
func openVictim(t *testing.T, driver, url string) (victim, admin *sql.DB) {
	t.Helper()
	return pgtest.Open(t, driver, named(t, url, "victim")), pgtest.Open(t, driver, direct(url))
}

// terminate ends the server's side of all connections of that name.
func terminate(t *testing.T, admin *sql.DB, name string) {
	t.Helper()
	if n := scan[int](t, admin, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = $1`, name); n == 0 {
		t.Errorf("there is no connection named %q", name)
	}
}

// The connections of a pool may lead to what was the primary once. They are given up, or the
// elector would be stuck for ever.
func TestReadOnlyPhaseEndsTermAndElectorRecoversByItself(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool, admin := openVictim(t, driver, url)
		admin.SetMaxOpenConns(1) // a session from before the change stays as it is
		mustExec(t, admin, `SELECT 1`)
		pool.SetMaxIdleConns(5)
		var seen events
		e := newElector(t, pool, leader.Config{
			TTL: 1500 * time.Millisecond, RetryEvery: 50 * time.Millisecond, OnEvent: seen.add,
		})
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
		clockPast(t, admin, expiresAt(t, admin), "1 s")
		eventually(t, "a failed claim is reported", func() bool {
			return len(seen.of(leader.EventClaimFailed)) > 0
		})
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
		clockPast(t, admin, databaseNow(t, admin), "200 ms")
		eventually(t, "renewals time out", func() bool {
			n := 0
			for _, failed := range seen.of(leader.EventRenewFailed) {
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
			// Once a busy machine may need more than 50 ms.
			eventually(t, "the connection answers", func() bool {
				var one int
				return conn.QueryRowContext(t.Context(), `SELECT 1`).Scan(&one) == nil && one == 1
			})
		}
	})
}

package contract_test

import (
	"context"
	"database/sql"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

// The unique index on the token is what makes every takeover a key update, also one that somebody
// types in psql. Without it one that does not lock the row first goes straight through an open
// guard.
func TestUniqueTokenMakesEveryTakeoverWaitForGuard(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool, admin := openPair(t, driver, url)
		term := acquire(t, newElector(t, pool, slow), job)
		takeover := func() string {
			tx := begin(t, pool, sql.LevelDefault)
			defer tx.Rollback()
			if err := term.Guard(t.Context(), tx); err != nil {
				t.Fatal(err)
			}
			conn, err := admin.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := conn.ExecContext(t.Context(), `SET lock_timeout = '100ms'`); err != nil {
				t.Fatal(err)
			}
			attempt, err := conn.BeginTx(context.Background(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer attempt.Rollback()
			_, err = attempt.ExecContext(t.Context(),
				`UPDATE leader_lease SET holder = 'somebody', token = token + 1 WHERE job_name = $1`, job)
			return sqlState(err)
		}
		if state := takeover(); state != "55P03" {
			t.Errorf("a takeover beside an open guard: SQLSTATE %q, want 55P03 (it waited)", state)
		}
		mustExec(t, admin, `ALTER TABLE leader_lease DROP CONSTRAINT leader_lease_job_name_token_key`)
		if state := takeover(); state != "" {
			t.Errorf("a takeover without the unique index: SQLSTATE %q, want it to go through, "+
				"or this test can't fail", state)
		}
	})
}

func TestDismissWaitsForAGuardedTransaction(t *testing.T) {
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		term := acquire(t, newElector(t, pool, slow), job)
		tx := begin(t, pool, sql.LevelReadCommitted)
		if err := term.Guard(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
		operator := newElector(t, pool, leader.Config{TTL: time.Minute})
		dismissed := make(chan error, 1)
		go func() {
			_, err := operator.Dismiss(context.Background(), job)
			dismissed <- err
		}()
		eventually(t, "Dismiss to wait for the row", func() bool {
			return lockIsAwaited(t, pool)
		})
		if token := tokenOf(t, pool, job); token != term.Token() {
			t.Errorf("token %d under an open guard, want %d", token, term.Token())
		}
		commit(t, tx)
		if err := receive(t, "Dismiss", dismissed); err != nil {
			t.Error(err)
		}
	})
}

func TestLeaderStoppedForTwoTTLIsRefusedStepsDownAndCampaignsAgain(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		mustExec(t, pool, `CREATE TABLE report (id bigint GENERATED ALWAYS AS IDENTITY, token bigint)`)
		p := start(t, order{
			Program: "lead", Driver: driver, URL: url, Job: job,
			TTL: 2 * time.Second, RetryEvery: 50 * time.Millisecond,
		})
		p.says(t, "elected 1")
		p.tell(t, "write")
		p.says(t, "written 1")

		p.signal(t, syscall.SIGSTOP)
		stopped := databaseNow(t, pool)
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
		tokens := scan[string](t, pool, `SELECT string_agg(token::text, ' ' ORDER BY id) FROM report`)
		if tokens != "1 2 3" {
			t.Errorf("the writes have the tokens %s, want 1 2 3", tokens)
		}
		p.signal(t, syscall.SIGTERM)
		p.says(t, "bye")
		p.exits(t)
	})
}

func TestManyGuardsOfOneTermAreOpenAtOnce(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool, admin := openPair(t, driver, url)
		term := acquire(t, newElector(t, pool, quick), job)
		var open []*sql.Tx
		for range 16 {
			tx := begin(t, pool, sql.LevelDefault)
			if err := term.Guard(t.Context(), tx); err != nil {
				t.Fatal(err)
			}
			open = append(open, tx)
		}
		eventuallyRenewed(t, admin, job, 2)
		for _, tx := range open {
			commit(t, tx)
		}
		stillLeads(t, term)
	})
}

func TestGuardOfResignedTermIsRefused(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		term := acquire(t, newElector(t, pool, slow), job)
		resign(t, term)
		err := term.Guard(t.Context(), begin(t, pool, sql.LevelDefault))
		if !errors.Is(err, leader.ErrLost) {
			t.Errorf("Guard = %v, want ErrLost", err)
		}
		if err := term.Guard(t.Context(), nil); err == nil {
			t.Error("Guard accepts a nil transaction")
		}
	})
}

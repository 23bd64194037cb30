package contract_test

import (
	"context"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

func TestLeaderStepsDownInTimeWhileTheServersDiskStalls(t *testing.T) {
	t.Parallel()
	server := pgtest.Private(t)
	url, err := server.CreateDatabase(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	admin := pgtest.Open(t, "pgx", url)
	mustExec(t, admin, `CREATE TABLE report (id int)`)
	waiting := func(n int) {
		t.Helper()
		eventually(t, "commits wait", func() bool {
			return scan[bool](t, admin,
				`SELECT count(*) >= $1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'`, n)
		})
	}
	for _, driver := range pgtest.Drivers {
		t.Run(driver, func(t *testing.T) {
			pool, guarded := pgtest.Open(t, driver, url), pgtest.Open(t, driver, url)
			cfg := leader.Config{TTL: 5 * time.Second, RetryEvery: 50 * time.Millisecond}
			term := acquire(t, newElector(t, pool, cfg), job)
			end := endOf(t, term, admin)
			won := leadsAfter(t, term, pgtest.Open(t, driver, url))
			resume, err := server.StallCommits(context.WithoutCancel(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = resume() }) // the next driver's test is to begin well
			waiting(1)                         // the renewal: the server takes a moment to know its settings
			// What has committed counts, not what waits: that becomes visible when a driver cancels it, as
			// it would not on a disk.
			lease := expiresAt(t, admin)
			committed := make(chan error, 1)
			go func() {
				tx, err := guarded.BeginTx(t.Context(), nil)
				if err == nil {
					err = term.Guard(t.Context(), tx)
				}
				if err == nil {
					_, err = tx.Exec(`INSERT INTO report VALUES (1)`)
				}
				if err == nil {
					err = tx.Commit()
				}
				committed <- err
			}()
			waiting(2)
			endsBefore(t, end(), lease)
			select {
			case <-won:
				t.Error("somebody was elected whose lease nobody can see")
			case err := <-committed:
				t.Errorf("the commit has ended with %v", err)
			default:
			}
			if err := resume(); err != nil {
				t.Fatal(err)
			}
			if err := receive(t, "the end of the commit", committed); err != nil {
				t.Errorf("the guarded transaction: %v", err)
			}
			next := receive(t, "the next election", won)
			if next.Token() != term.Token()+1 {
				t.Errorf("token %d after %d", next.Token(), term.Token())
			}
			resign(t, next)
		})
	}
}

package contract_test

import (
	"context"
	"database/sql"
	"sync"
	"testing"
	"time"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

// Everything that the library does, with its own renewals going on beside it.
func TestEverythingWorksThroughPgBouncer(t *testing.T) {
	t.Parallel()
	throughPgBouncer(t, func(t *testing.T, pool *sql.DB) {
		var seen events
		cfg := quick
		cfg.OnEvent = seen.add
		e, rival := slotElector(t, pool, cfg), slotElector(t, pool, cfg)
		term := acquire(t, e.Elector, job)
		other := acquire(t, e.Elector, "another job") // several are renewed by another statement
		refused(t, rival.Elector, job)
		elected := campaigning(t, rival.Elector, job)

		tx := begin(t, pool, sql.LevelReadCommitted)
		if err := term.Guard(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
		eventuallyRenewed(t, pool, job, 3)
		commit(t, tx)

		slot := databaseNow(t, pool).Add(-time.Minute)
		complete := func(ctx context.Context, s *schedule.Slot) error {
			tx := begin(t, pool, sql.LevelReadCommitted)
			if err := s.Complete(ctx, tx); err != nil {
				return err
			}
			return tx.Commit()
		}
		ran, err := e.RunSlot(t.Context(), "report", slot, complete)
		if err != nil || !ran {
			t.Errorf("RunSlot = %v, %v", ran, err)
		}
		if err := e.Rerun(t.Context(), "report", slot); err != nil {
			t.Error(err)
		}
		due, err := rival.RunDue(t.Context(), "report", every(24*365*time.Hour), schedule.Policy{},
			func(context.Context, *schedule.Slot) error { return nil })
		if err != nil || due.Ran != 1 {
			t.Errorf("RunDue = %+v, %v; want the slot that was requested", due, err)
		}
		onRecord(t, e, "report", schedule.StateDone, 2)

		resign(t, term)
		next := receive(t, "the candidate to be elected", elected)
		if _, err := e.Dismiss(t.Context(), "another job"); err != nil {
			t.Error(err)
		}
		endsWithLoss(t, other)
		if leases, err := e.Leases(t.Context()); err != nil || len(leases) != 3 {
			t.Errorf("%d leases, %v; want 3", len(leases), err)
		}
		resign(t, next)
		for _, kind := range []leader.EventKind{
			leader.EventRenewFailed, leader.EventLookFailed, leader.EventClaimFailed,
			leader.EventResignFailed,
		} {
			for _, event := range seen.of(kind) {
				t.Errorf("%s: %v", event.Kind, event.Err)
			}
		}
	})
}

// lib/pq#889, sqlc#1341: "unnamed prepared statement does not exist".
func TestThousandRenewalsThroughPgBouncerGiveNoError(t *testing.T) {
	t.Parallel()
	throughPgBouncer(t, func(t *testing.T, pool *sql.DB) {
		e := newElector(t, pool, slow)
		term := acquire(t, e, job)
		renew := renewalOf(e.Holder(), job, term.Token(), 3600)
		var workers sync.WaitGroup
		for range 8 {
			workers.Go(func() {
				for range 125 {
					if n, err := db.New(pool).RenewLease(t.Context(), renew); err != nil || n != 1 {
						t.Errorf("a renewal = %d, %v", n, err)
						return
					}
				}
			})
		}
		workers.Wait()
		stillLeads(t, term)
	})
}

func throughPgBouncer(t *testing.T, test func(t *testing.T, pool *sql.DB)) {
	t.Helper()
	for _, mode := range []string{"transaction", "session"} {
		for _, driver := range pgtest.Drivers {
			t.Run(mode+" mode/"+driver, func(t *testing.T) {
				t.Parallel()
				url := pgtest.PgBouncer(t, pgtest.NewURL(t), mode)
				setting := pgtest.PoolerSettings[driver]
				test(t, pgtest.Open(t, driver, withParam(t, url, setting[0], setting[1])))
			})
		}
	}
}

package contract_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

func TestCompleteCommitsTheSlotWithTheJobsRowsOrNotAtAll(t *testing.T) {
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		mustExec(t, pool, `CREATE TABLE report (slot timestamptz)`)
		slot := time.Now().Add(-time.Minute)
		write := func(ctx context.Context, s *schedule.Slot, end func(*sql.Tx) error) error {
			tx, err := pool.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer tx.Rollback()
			if err := s.Complete(ctx, tx); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, "INSERT INTO report VALUES ($1)", s.Time()); err != nil {
				return err
			}
			return end(tx)
		}
		var ends []schedule.Event // of calls one after another
		e := slotElector(t, pool, leader.Config{})
		scheduler, err := schedule.New(e.Elector, schedule.Config{OnEvent: func(event schedule.Event) {
			if event.Kind == schedule.EventFinished {
				ends = append(ends, event)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		e.Scheduler = scheduler
		commits := func(ctx context.Context, s *schedule.Slot) error {
			return write(ctx, s, (*sql.Tx).Commit)
		}
		ran, err := e.RunSlot(t.Context(), "report", slot, commits)
		if !ran || err != nil {
			t.Fatal(ran, err)
		}
		rollsBack := func(ctx context.Context, s *schedule.Slot) error {
			return write(ctx, s, (*sql.Tx).Rollback)
		}
		ran, err = e.RunSlot(t.Context(), "report", slot.Add(time.Second), rollsBack)
		if !ran || err == nil {
			t.Errorf("ran %v, %v: want an error for a completion that was rolled back", ran, err)
		}
		// What fails after the commit is told, and changes nothing.
		late := errors.New("the mail was not sent")
		failsLate := func(ctx context.Context, s *schedule.Slot) error {
			return errors.Join(commits(ctx, s), late)
		}
		ran, err = e.RunSlot(t.Context(), "mail", slot, failsLate)
		if !ran || !errors.Is(err, late) {
			t.Errorf("ran %v, %v; want what work returned", ran, err)
		}
		onRecord(t, e, "mail", schedule.StateDone, 1)
		if why := history(t, e, "mail")[0].Error; why != "" {
			t.Errorf("the error on record is %q", why)
		}
		end := ends[2]
		if end.State != schedule.StateDone || !errors.Is(end.Err, late) {
			t.Errorf("reported %+v, want it done, with the error", end)
		}
		h := history(t, e, "report")
		if len(h) != 2 || h[0].State != schedule.StateFailed || h[1].State != schedule.StateDone {
			t.Errorf("history %+v", h)
		}
		if rows := scan[int](t, pool, `SELECT count(*) FROM report`); rows != 2 {
			t.Errorf("%d rows, want 2", rows)
		}
	})
}

func TestLostTermRefusesCompleteAndItsSlotIsRunAgain(t *testing.T) {
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		slot := databaseNow(t, pool).Add(-time.Minute)
		e, successor := slotElector(t, pool, leader.Config{}), slotElector(t, pool, leader.Config{})
		runAgain := func() {
			second := func(_ context.Context, s *schedule.Slot) error {
				if s.Attempt() != 2 {
					t.Errorf("attempt %d, want 2", s.Attempt())
				}
				return nil
			}
			ran, err := successor.RunSlot(t.Context(), "report", slot, second)
			if !ran || err != nil {
				t.Errorf("the successor: ran %v, %v", ran, err)
			}
		}
		loses := func(ctx context.Context, s *schedule.Slot) error {
			// Somebody takes the lease away, as docs/operations.md says.
			mustExec(t, pool, `UPDATE leader_lease SET holder = 'operator', token = token + 1`)
			<-ctx.Done()
			if cause := context.Cause(ctx); !errors.Is(cause, leader.ErrLost) {
				t.Errorf("cause %v, want ErrLost", cause)
			}
			tx := begin(t, pool, sql.LevelDefault)
			if err := s.Complete(context.WithoutCancel(ctx), tx); !errors.Is(err, leader.ErrLost) {
				t.Errorf("Complete = %v, want ErrLost", err)
			}
			rollback(t, tx)
			runAgain()
			return nil // too late
		}
		ran, err := e.RunSlot(t.Context(), "report", slot, loses)
		if ran || err != nil {
			t.Errorf("ran %v, %v; want the successor to have run it", ran, err)
		}
		onRecord(t, e, "report", schedule.StateDone, 2)
	})
}

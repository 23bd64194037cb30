package pgleader_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

var quiet = slog.New(slog.DiscardHandler)

func slotElector(t *testing.T, pool *sql.DB, cfg leader.Config) *leader.Elector {
	t.Helper()
	if cfg.TTL == 0 {
		cfg.TTL = 3 * time.Second
	}
	if cfg.RetryEvery == 0 {
		cfg.RetryEvery = 20 * time.Millisecond
	}
	cfg.Logger = quiet
	e, err := leader.New(pool, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func history(t *testing.T, e *leader.Elector, job string) []leader.SlotRun {
	t.Helper()
	runs, err := e.History(t.Context(), job, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

func TestSlotRunsOnceHoweverManyInstancesComeForIt(t *testing.T) {
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		slot := time.Now().Add(-time.Second)
		var runs, ran atomic.Int32
		var wg sync.WaitGroup
		for range 5 {
			e := slotElector(t, pool, leader.Config{})
			wg.Go(func() {
				ok, err := e.RunSlot(t.Context(), "nightly-report", slot, func(context.Context, *leader.Slot) error {
					runs.Add(1)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
				if ok {
					ran.Add(1)
				}
			})
		}
		wg.Wait()
		if runs.Load() != 1 || ran.Load() != 1 {
			t.Errorf("%d runs, %d calls say they ran it, want 1 and 1", runs.Load(), ran.Load())
		}
		e := slotElector(t, pool, leader.Config{})
		h := history(t, e, "nightly-report")
		if len(h) != 1 || h[0].State != leader.SlotDone || h[0].Attempt != 1 || !h[0].Slot.Equal(slot.Truncate(time.Microsecond)) {
			t.Errorf("history %+v", h)
		}
	})
}

func TestFailedSlotIsNotRunAgain(t *testing.T) {
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		slot := time.Now().Add(-time.Second)
		broken := errors.New("mail server said no")
		e := slotElector(t, pool, leader.Config{})
		ran, err := e.RunSlot(t.Context(), "mail", slot, func(context.Context, *leader.Slot) error { return broken })
		if !ran || !errors.Is(err, broken) {
			t.Errorf("ran %v, %v", ran, err)
		}
		ran, err = slotElector(t, pool, leader.Config{}).RunSlot(t.Context(), "mail", slot, func(context.Context, *leader.Slot) error {
			t.Error("it was run again")
			return nil
		})
		if ran || err != nil {
			t.Errorf("ran %v, %v", ran, err)
		}
		if h := history(t, e, "mail"); len(h) != 1 || h[0].State != leader.SlotFailed || h[0].Error != broken.Error() {
			t.Errorf("history %+v", h)
		}
	})
}

func TestScheduleRunsEverySlotOnceAmongThreeInstances(t *testing.T) {
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var mu sync.Mutex
		runs := make(map[time.Time]int)
		var wg sync.WaitGroup
		for range 3 {
			e := slotElector(t, pool, leader.Config{})
			wg.Go(func() {
				err := e.RunSchedule(ctx, "tick", every(200*time.Millisecond), leader.Policy{CatchUp: leader.CatchUpAll}, func(_ context.Context, s *leader.Slot) error {
					mu.Lock()
					defer mu.Unlock()
					runs[s.Time()]++
					if len(runs) >= 20 {
						cancel()
					}
					return nil
				})
				if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for slot, n := range runs {
			if n != 1 {
				t.Errorf("slot %v ran %d times", slot, n)
			}
		}
		h := history(t, slotElector(t, pool, leader.Config{}), "tick")
		if len(h) != len(runs) {
			t.Errorf("%d slots on record, %d run", len(h), len(runs))
		}
		for i, r := range h {
			if r.State != leader.SlotDone {
				t.Errorf("slot %v: %+v", r.Slot, r)
			}
			if i > 0 && h[i-1].Slot.Sub(r.Slot) != 200*time.Millisecond {
				t.Errorf("between %v and %v a slot is missing", r.Slot, h[i-1].Slot)
			}
		}
	})
}

// every comes at each multiple of d.
type every time.Duration

func (d every) Next(after time.Time) time.Time {
	return after.Truncate(time.Duration(d)).Add(time.Duration(d))
}

func TestCompleteCommitsTheSlotWithTheJobsRowsOrNotAtAll(t *testing.T) {
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		if _, err := pool.ExecContext(t.Context(), "CREATE TABLE report (slot timestamptz)"); err != nil {
			t.Fatal(err)
		}
		slot := time.Now().Add(-time.Minute)
		write := func(ctx context.Context, s *leader.Slot, end func(*sql.Tx) error) error {
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
		var seen events
		e := slotElector(t, pool, leader.Config{OnEvent: seen.add})
		ran, err := e.RunSlot(t.Context(), "report", slot, func(ctx context.Context, s *leader.Slot) error {
			return write(ctx, s, (*sql.Tx).Commit)
		})
		if !ran || err != nil {
			t.Fatal(ran, err)
		}
		ran, err = e.RunSlot(t.Context(), "report", slot.Add(time.Second), func(ctx context.Context, s *leader.Slot) error {
			return write(ctx, s, (*sql.Tx).Rollback)
		})
		if !ran || err == nil {
			t.Errorf("ran %v, %v: want an error for a completion that was rolled back", ran, err)
		}
		// What fails after the commit is told, and changes nothing.
		late := errors.New("the mail was not sent")
		ran, err = e.RunSlot(t.Context(), "mail", slot, func(ctx context.Context, s *leader.Slot) error {
			return errors.Join(write(ctx, s, (*sql.Tx).Commit), late)
		})
		if !ran || !errors.Is(err, late) {
			t.Errorf("ran %v, %v; want what work returned", ran, err)
		}
		if h := history(t, e, "mail"); len(h) != 1 || h[0].State != leader.SlotDone || h[0].Error != "" {
			t.Errorf("history %+v", h)
		}
		if ends := seen.of(leader.SlotFinished); ends[2].State != leader.SlotDone || !errors.Is(ends[2].Err, late) {
			t.Errorf("reported %+v, want it done, with the error", ends[2])
		}
		h := history(t, e, "report")
		if len(h) != 2 || h[0].State != leader.SlotFailed || h[1].State != leader.SlotDone {
			t.Errorf("history %+v", h)
		}
		var rows int
		if err := pool.QueryRowContext(t.Context(), "SELECT count(*) FROM report").Scan(&rows); err != nil || rows != 2 {
			t.Errorf("%d rows, want 2 (%v)", rows, err)
		}
	})
}

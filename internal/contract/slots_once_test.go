package contract_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

func TestSlotRunsOnceHoweverManyInstancesComeForIt(t *testing.T) {
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		slot := time.Now().Add(-time.Second)
		var runs, ran atomic.Int32
		var wg sync.WaitGroup
		for range 5 {
			e := slotElector(t, pool, leader.Config{})
			wg.Go(func() {
				ok, err := e.RunSlot(t.Context(), job, slot, func(context.Context, *schedule.Slot) error {
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
		onRecord(t, e, job, schedule.StateDone, 1)
		got := history(t, e, job)[0].Slot
		if got.Before(slot) || got.Sub(slot) >= time.Microsecond { // the database's precision
			t.Errorf("on record is the slot %v, want %v", got, slot)
		}
	})
}

// Instances whose clocks differ come for one slot at different times; the one whose clock is ahead
// has to wait for the database's.
func TestSlotIsRunOnceByDatabaseTimeWhateverTheInstancesClocksSay(t *testing.T) {
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		slot := databaseNow(t, pool).Add(2 * time.Second)
		var runs atomic.Int32
		var wg sync.WaitGroup
		offsets := []time.Duration{-2 * time.Second, 0, 2 * time.Second} // of the instances' clocks
		for _, offset := range offsets {
			e := slotElector(t, pool, leader.Config{})
			wg.Go(func() {
				timer := time.NewTimer(time.Until(slot.Add(-offset)))
				defer timer.Stop()
				<-timer.C
				work := func(context.Context, *schedule.Slot) error {
					runs.Add(1)
					if now := databaseNow(t, pool); now.Before(slot) {
						t.Errorf("slot %v was run at %v", slot, now)
					}
					return nil
				}
				if _, err := e.RunSlot(t.Context(), job, slot, work); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if runs.Load() != 1 {
			t.Errorf("%d runs, want 1", runs.Load())
		}
	})
}

func TestScheduleRunsEverySlotOnceAmongThreeInstances(t *testing.T) {
	const interval = 200 * time.Millisecond
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var mu sync.Mutex
		runs := make(map[time.Time]int)
		work := func(_ context.Context, s *schedule.Slot) error {
			mu.Lock()
			defer mu.Unlock()
			runs[s.Time()]++
			if len(runs) >= 20 {
				cancel()
			}
			return nil
		}
		var wg sync.WaitGroup
		for range 3 {
			e := slotElector(t, pool, leader.Config{})
			wg.Go(func() {
				err := e.Scheduler.Run(ctx, "tick", every(interval), catchUpAll, work)
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
			if r.State != schedule.StateDone {
				t.Errorf("slot %v: %+v", r.Slot, r)
			}
			if i > 0 && h[i-1].Slot.Sub(r.Slot) != interval {
				t.Errorf("between %v and %v a slot is missing", r.Slot, h[i-1].Slot)
			}
		}
	})
}

func TestFiftyInstancesWithDifferentClocksRunHundredSlotsOnce(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t, "pgx", pgtest.NewURL(t))
	pool.SetMaxOpenConns(20)
	const interval = 50 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	start := databaseNow(t, pool).Add(2 * time.Second).Truncate(interval)
	end := start.Add(100 * interval)
	var mu sync.Mutex
	runs := make(map[time.Time]int)
	work := func(_ context.Context, s *schedule.Slot) error {
		mu.Lock()
		defer mu.Unlock()
		runs[s.Time()]++
		if len(runs) == 100 {
			cancel()
		}
		return nil
	}
	var wg sync.WaitGroup
	for i := range 50 {
		e := slotElector(t, pool, leader.Config{TTL: 5 * time.Second, RetryEvery: 500 * time.Millisecond})
		// An instance's clock has no say: all that it could do is to start early or late.
		timer := time.NewTimer(time.Duration(i) * 20 * time.Millisecond)
		wg.Go(func() {
			<-timer.C
			err := e.Scheduler.Run(ctx, "tick", between{start, end, interval}, catchUpAll, work)
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(runs) != 100 {
		t.Errorf("%d slots were run, want 100", len(runs))
	}
	for slot, n := range runs {
		if n != 1 {
			t.Errorf("slot %v ran %d times", slot, n)
		}
	}
}

func TestFailedSlotIsNotRunAgain(t *testing.T) {
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		slot := time.Now().Add(-time.Second)
		broken := errors.New("mail server said no")
		e := slotElector(t, pool, leader.Config{})
		fails := func(context.Context, *schedule.Slot) error { return broken }
		ran, err := e.RunSlot(t.Context(), "mail", slot, fails)
		if !ran || !errors.Is(err, broken) {
			t.Errorf("ran %v, %v", ran, err)
		}
		again := func(context.Context, *schedule.Slot) error {
			t.Error("it was run again")
			return nil
		}
		ran, err = slotElector(t, pool, leader.Config{}).RunSlot(t.Context(), "mail", slot, again)
		if ran || err != nil {
			t.Errorf("ran %v, %v", ran, err)
		}
		onRecord(t, e, "mail", schedule.StateFailed, 1)
		if got := history(t, e, "mail")[0].Error; got != broken.Error() {
			t.Errorf("the error on record is %q", got)
		}
	})
}

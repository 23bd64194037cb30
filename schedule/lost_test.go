package schedule_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/internal/pgfake"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

// The leader's renewals fail while it works on the slot of 01:00, and nobody else is there to take
// over.
func TestSlotWhoseTermIsLostIsNeverDecidedByItsWork(t *testing.T) {
	heeds := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	deaf := func(err error) func(context.Context) error {
		return func(context.Context) error {
			time.Sleep(time.Minute)
			return err
		}
	}
	for _, tt := range []struct {
		name     string
		work     func(context.Context) error
		attempts int
		want     string // when the next leader has come
	}{
		{"work that heeds its context", heeds, 3, "01:00 done 2"},
		{"deaf work that succeeds", deaf(nil), 3, "01:00 done 2"},
		{"deaf work that fails", deaf(errors.New("it went wrong")), 3, "01:00 done 2"},
		{"work that heeds its context, last attempt", heeds, 1, "01:00 abandoned 1"},
		{"deaf work that succeeds, last attempt", deaf(nil), 1, "01:00 abandoned 1"},
		{"deaf work that fails, last attempt", deaf(errors.New("it went wrong")), 1, "01:00 abandoned 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				d := &diary{table: tb}
				until(30 * time.Minute)
				p := start(t, tb, leader.Config{})
				policy := schedule.Policy{Attempts: tt.attempts}
				returned := make(chan struct{})
				stop := p.follow(t, daily(time.Hour), policy, func(ctx context.Context, s *schedule.Slot) error {
					defer close(returned)
					d.note(s)
					p.path.Suffer(pgfake.Only(pgfake.KindRenewOne, pgfake.Trouble{Fails: pgfake.ErrReset}))
					err := tt.work(ctx)
					if cause := context.Cause(ctx); !errors.Is(cause, leader.ErrLost) {
						t.Errorf("the work's context ended with the cause %v, want leader.ErrLost", cause)
					}
					tb.Put("job", "an instance that only leads", 10*time.Minute)
					return err
				})
				<-returned
				time.Sleep(time.Minute)
				wantOutcomes(t, tb, "01:00 running 1")
				stop()
				until(time.Hour + 30*time.Minute)
				start(t, tb, leader.Config{}).follow(t, daily(time.Hour), policy, d.work(0))
				time.Sleep(time.Minute)
				wantOutcomes(t, tb, tt.want)
			})
		})
	}
}

// Work that a shutdown interrupts is cut off, not failed; but what it has finished all the same
// stays finished.
func TestShutdownCutsASlotOffUnlessItsWorkWasDone(t *testing.T) {
	for _, tt := range []struct {
		name     string
		err      error
		shutdown bool // before the work returns
		want     string
		next     string // when the next instance has come
	}{
		{"an error after the shutdown", errors.New("it went wrong"), true, "01:00 abandoned 1", "01:00 done 2"},
		{"an error before the shutdown", errors.New("it went wrong"), false, "01:00 failed 1", "01:00 failed 1"},
		{"no error after the shutdown", nil, true, "01:00 done 1", "01:00 done 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				d := &diary{table: tb}
				until(30 * time.Minute)
				stop := start(t, tb, leader.Config{}).follow(t, daily(time.Hour), schedule.Policy{}, func(context.Context, *schedule.Slot) error {
					time.Sleep(time.Minute)
					return tt.err
				})
				if tt.shutdown {
					until(time.Hour + 30*time.Second)
				} else {
					until(time.Hour + 90*time.Second)
				}
				stop()
				wantOutcomes(t, tb, tt.want)
				start(t, tb, leader.Config{}).follow(t, daily(time.Hour), schedule.Policy{}, d.work(0))
				time.Sleep(time.Minute)
				wantOutcomes(t, tb, tt.next)
			})
		})
	}
}

// A call of RunSlot obeys the limit of three attempts too, for a slot that the last of them left
// running.
func TestSlotThatUsedUpItsAttemptsIsNotRunByOneMoreCall(t *testing.T) {
	for attempt := range int32(5) {
		synctest.Test(t, func(t *testing.T) {
			tb := pgfake.NewTable()
			d := &diary{table: tb}
			slot := midnight().Add(time.Hour)
			tb.Put("job", "gone", 0)
			if attempt > 0 {
				putSlot(tb, slot, schedule.StateRunning, attempt)
			}
			until(2 * time.Hour)
			ran, err := start(t, tb, leader.Config{}).RunSlot(t.Context(), "job", slot, d.work(0))
			if want := attempt < 3; err != nil || ran != want || len(d.all()) == 1 != want {
				t.Errorf("after %d attempts RunSlot = %v, %v with %d runs; want %v", attempt, ran, err, len(d.all()), want)
			}
			if row := tb.Slots()[0]; attempt >= 3 && row.State != string(schedule.StateAbandoned) {
				t.Errorf("after %d attempts the slot is %s, want abandoned", attempt, row.State)
			}
		})
	}
}

// Whoever says that the slot is complete, and then does not commit, has not done it.
func TestSlotWhoseCompletionDidNotCommitIsFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, leader.Config{})
		forgets := func(ctx context.Context, s *schedule.Slot) error {
			tx, err := p.pool.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer tx.Rollback()
			return s.Complete(ctx, tx)
		}
		ran, err := p.RunSlot(t.Context(), "job", midnight(), forgets)
		if !ran || err == nil {
			t.Errorf("RunSlot = %v, %v; want an error", ran, err)
		}
		wantOutcomes(t, tb, "00:00 failed 1")
	})
}

package schedule_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/internal/pgfake"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

// The leader of the schedule never gives its lease up, so there is no claim that could tell.
func TestRunSlotReturnsWhenTheLeaderOfAScheduleHasRunTheSlot(t *testing.T) {
	for name, own := range map[string]bool{"in another process": false, "in the same process": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				d := &diary{table: tb}
				until(30 * time.Minute)
				leads := start(t, tb, leader.Config{})
				leads.follow(t, hourly, schedule.Policy{}, d.work(10*time.Minute))
				time.Sleep(time.Minute)
				p := leads
				if !own {
					p = start(t, tb, leader.Config{})
				}
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
				defer cancel()
				ran, err := p.RunSlot(ctx, "job", midnight().Add(time.Hour), d.work(0))
				if ran || err != nil {
					t.Errorf("RunSlot = %v, %v; want that another call has run it", ran, err)
				}
				if late := time.Since(midnight().Add(70 * time.Minute)); late < 0 || late > 2*time.Second {
					t.Errorf("RunSlot returned %v after the end of the slot's work", late)
				}
				wantOutcomes(t, tb, "01:00 done 1")
			})
		})
	}
}

func TestRunSlotDoesNotClaimARunThatWasCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, leader.Config{})
		work := func(ctx context.Context, _ *schedule.Slot) error {
			tb.Put("job", "thief", time.Second)
			<-ctx.Done()
			return ctx.Err()
		}
		ran, err := p.RunSlot(t.Context(), "job", midnight(), work)
		if ran || err != nil {
			t.Errorf("RunSlot = %v, %v; want no run to its end", ran, err)
		}
		wantOutcomes(t, tb, "00:00 abandoned 3")
	})
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
				t.Errorf("after %d attempts RunSlot = %v, %v with %d runs; want %v",
					attempt, ran, err, len(d.all()), want)
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

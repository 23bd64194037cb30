package schedule_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/internal/pgfake"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

// A leader was killed in the middle of a slot, and nobody was there for days.
func TestOnlyTheLatestSlotIsTakenUpAgain(t *testing.T) {
	at := midnight().Add(10 * 24 * time.Hour)
	cutOff := at.Add(-72 * time.Hour)
	future := at.Add(12 * time.Hour)
	overtaken := roll{cutOff, at.Add(-48 * time.Hour), at.Add(-24 * time.Hour), future}
	latest := roll{cutOff, future}
	never := roll{cutOff}
	skip := schedule.Policy{CatchUp: schedule.CatchUpSkip}
	all := schedule.Policy{CatchUp: schedule.CatchUpAll, Grace: 100 * time.Hour}
	for _, tt := range []struct {
		name   string
		slots  roll
		policy schedule.Policy
		again  bool
	}{
		{"later slots are due", overtaken, schedule.Policy{}, false},
		{"later slots are due, skipping", overtaken, skip, false},
		{"later slots are due, all within grace", overtaken, all, true},
		{"a later one will be", latest, schedule.Policy{}, true},
		{"a later one will be, skipping", latest, skip, true},
		{"no later one comes", never, schedule.Policy{Grace: 100 * time.Hour}, true},
	} {
		for name, call := range map[string]func(context.Context, *process, slotFunc){
			"Run": func(ctx context.Context, p *process, work slotFunc) {
				_ = p.Scheduler.Run(ctx, "job", tt.slots, tt.policy, work)
			},
			"RunDue": func(ctx context.Context, p *process, work slotFunc) {
				_, _ = p.RunDue(ctx, "job", tt.slots, tt.policy, work)
			},
		} {
			t.Run(tt.name+", by "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					tb := pgfake.NewTable()
					d := &diary{table: tb}
					putSlot(tb, cutOff, schedule.StateRunning, 1)
					until(10 * 24 * time.Hour)
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					call(ctx, start(t, tb, leader.Config{}), d.work(0))
					isCutOff := func(run slotRun) bool { return run.slot.Equal(cutOff) }
					again := slices.ContainsFunc(d.all(), isCutOff)
					if again != tt.again {
						t.Errorf("the slot that was cut off is run again: %v, want %v", again, tt.again)
					}
				})
			})
		}
	}
}

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
	overtaken := roll{cutOff, at.Add(-48 * time.Hour), at.Add(-24 * time.Hour), at.Add(12 * time.Hour)}
	latest := roll{cutOff, at.Add(12 * time.Hour)}
	never := slices.Clone(latest)[:1]
	for _, tt := range []struct {
		name   string
		slots  roll
		policy schedule.Policy
		again  bool
	}{
		{"later slots are due", overtaken, schedule.Policy{}, false},
		{"later slots are due, skipping", overtaken, schedule.Policy{CatchUp: schedule.CatchUpSkip}, false},
		{"later slots are due, all within grace", overtaken, schedule.Policy{CatchUp: schedule.CatchUpAll, Grace: 100 * time.Hour}, true},
		{"a later one will be", latest, schedule.Policy{}, true},
		{"a later one will be, skipping", latest, schedule.Policy{CatchUp: schedule.CatchUpSkip}, true},
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
					again := slices.ContainsFunc(d.all(), func(run slotRun) bool { return run.slot.Equal(cutOff) })
					if again != tt.again {
						t.Errorf("the slot that was cut off is run again: %v, want %v", again, tt.again)
					}
				})
			})
		}
	}
}

// Of a schedule that comes every 10 ms most slots are missed, while each run takes two seconds.
func TestPruningKeepsUpWithWhatIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval, keep, run = 10 * time.Millisecond, time.Minute, 2 * time.Second
		tb := pgfake.NewTable()
		d := &diary{table: tb}
		p := start(t, tb, leader.Config{})
		p.follow(t, every(interval), schedule.Policy{Keep: keep}, d.work(run))
		for range 5 {
			time.Sleep(time.Minute)
			// What is kept, what one run has recorded since, and what the next one is at.
			if n, most := len(tb.Slots()), int((keep+2*run)/interval)+1; n > most {
				t.Errorf("%d slots are on record, want at most %d", n, most)
			}
		}
	})
}

package schedule_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/internal/pgfake"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

// An outage of 50 minutes leaves 3,000 slots behind, all of which can still be started in time.
func TestCatchingUpOnAllLeavesNoSlotWithinGraceOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		d := &diary{table: tb}
		putSlot(tb, midnight(), schedule.StateDone, 1)
		until(50 * time.Minute)
		policy := schedule.Policy{CatchUp: schedule.CatchUpAll}
		start(t, tb, leader.Config{}).follow(t, every(time.Second), policy, d.work(0))
		time.Sleep(10*time.Second + time.Millisecond)
		runs := d.all()
		if len(runs) != 50*60+10 {
			t.Errorf("%d runs, want %d", len(runs), 50*60+10)
		}
		for i, run := range runs {
			if want := midnight().Add(time.Duration(i+1) * time.Second); !run.slot.Equal(want) {
				t.Fatalf("run %d is of slot %v, want %v", i, run.slot, want)
			}
		}
	})
}

// The first leader dies between two statements that record missed slots.
func TestMissedSlotsAreRecordedOldestFirst(t *testing.T) {
	for range 10 { // it must not be by luck
		synctest.Test(t, func(t *testing.T) {
			tb := pgfake.NewTable()
			d := &diary{table: tb}
			putSlot(tb, midnight(), schedule.StateDone, 1)
			until(5*time.Hour + 30*time.Minute)
			first := start(t, tb, leader.Config{})
			first.path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
				return pgfake.Trouble{Hangs: s.Kind == pgfake.KindMissSlots && s.Nth == 2}
			})
			policy := schedule.Policy{Grace: 2 * time.Hour}
			first.follow(t, hourly, policy, d.work(0))
			time.Sleep(time.Second)
			first.crash()
			time.Sleep(time.Minute)
			start(t, tb, leader.Config{}).follow(t, hourly, policy, d.work(0))
			time.Sleep(time.Minute)
			wantOutcomes(t, tb,
				"00:00 done 1", "01:00 missed 0", "02:00 missed 0",
				"03:00 missed 0", "04:00 missed 0", "05:00 done 1")
		})
	}
}

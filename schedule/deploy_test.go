package schedule_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/internal/pgfake"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

// All three instances are replaced while the slot of 02:00 comes due.
func TestSlotThatComesDueDuringADeploymentIsRunLateOrRecordedAsMissed(t *testing.T) {
	const done, missed = "02:00 done 1", "02:00 missed 0"
	const downFrom, downTo = 2*time.Hour - 10*time.Second, 2*time.Hour + 20*time.Second
	skip := schedule.Policy{CatchUp: schedule.CatchUpSkip}
	all := schedule.Policy{CatchUp: schedule.CatchUpAll}
	short := schedule.Policy{Grace: 10 * time.Second}
	for _, tt := range []struct {
		name    string
		history bool // the slot of the day before is on record
		led     bool // the job had a leader before
		crash   bool // the instances are killed, and their lease has to expire
		policy  schedule.Policy
		want    []string
	}{
		{"within grace", true, true, false, schedule.Policy{}, []string{done, done}},
		{"within grace, killed", true, true, true, schedule.Policy{}, []string{done, done}},
		{"within grace, catching up on all", true, true, false, all, []string{done, done}},
		{"within grace, skipping", true, true, false, skip, []string{done, missed}},
		{"past grace", true, true, false, short, []string{done, missed}},
		{"past grace, killed", true, true, true, short, []string{done, missed}},
		{"first slot, within grace", false, true, false, schedule.Policy{}, []string{done}},
		{"first slot, within grace, killed", false, true, true, schedule.Policy{}, []string{done}},
		{"first slot, skipping", false, true, false, skip, []string{missed}},
		{"first slot, past grace", false, true, false, short, []string{missed}},
		{"first slot, past grace, killed", false, true, true, short, []string{missed}},
		{"on record, but not led", true, false, false, schedule.Policy{}, []string{done, done}},
		{"new job", false, false, false, schedule.Policy{}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				d := &diary{table: tb}
				slot := midnight().Add(2 * time.Hour)
				if tt.history {
					putSlot(tb, slot.Add(-24*time.Hour), schedule.StateDone, 1)
				}
				var holders []string
				crew := func() (stops []func()) {
					holders = nil
					for range 3 {
						p := start(t, tb, leader.Config{})
						holders = append(holders, p.Holder())
						stop := p.follow(t, daily(2*time.Hour), tt.policy, d.work(0))
						if tt.crash {
							stop = p.crash
						}
						stops = append(stops, stop)
					}
					return stops
				}
				if tt.led {
					until(2*time.Hour - 10*time.Minute)
					old := crew()
					until(downFrom)
					for _, stop := range old {
						stop()
					}
				}
				until(downTo)
				crew()
				time.Sleep(10 * time.Minute)

				wantOutcomes(t, tb, tt.want...)
				for _, row := range tb.Slots() {
					if row.Slot.Equal(slot) && !slices.Contains(holders, row.Holder) {
						t.Errorf("the slot was decided by %q, want one of the new instances %q", row.Holder, holders)
					}
					if row.State == string(schedule.StateMissed) && row.Error == "" {
						t.Errorf("the slot is missed without a reason: %+v", row)
					}
				}
				want := 0
				if n := len(tt.want); n > 0 && tt.want[n-1] == done {
					want = 1
				}
				if n := len(d.all()); n != want {
					t.Errorf("%d runs, want %d", n, want)
				}
				for _, run := range d.all() {
					if late := run.began.Sub(slot); late < 20*time.Second || late > time.Minute {
						t.Errorf("the slot was run %v late", late)
					}
				}
			})
		})
	}
}

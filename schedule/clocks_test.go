package schedule_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/internal/pgfake"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

// The instances' clocks differ by up to ten seconds, and the slots come every second and take no
// time. Each instance leads for a few slots only, until it is shut down.
func TestFiftyInstancesWhoseClocksDifferRunHundredSlotsHundredTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slots = 100
		tb := pgfake.NewTable()
		d := &diary{table: tb}
		first := midnight().Add(10 * time.Second)
		seconds := span{first, first.Add(slots * time.Second)}
		stops := make(map[string]func())
		for i := range 50 {
			p := start(t, tb, leader.Config{})
			wall := p.setWall(t)
			wall.Store(int64(-5*time.Second) + int64(i)*int64(10*time.Second)/49)
			stops[p.Holder()] = p.follow(t, seconds, schedule.Policy{CatchUp: schedule.CatchUpAll},
				d.work(10*time.Millisecond))
		}
		for n := range 48 {
			until(10*time.Second + time.Duration(n+1)*2*time.Second + 500*time.Millisecond)
			stops[tb.Row("job").Holder]()
		}
		time.Sleep(15 * time.Second)

		runs, holders := make(map[time.Time]int), make(map[string]bool)
		for _, run := range d.all() {
			runs[run.slot]++
			holders[run.holder] = true
			if late := run.began.Sub(run.slot); late < 0 || late > 5*time.Second {
				t.Errorf("slot %v is run at %v", run.slot, run.began)
			}
		}
		if len(holders) < 40 {
			t.Errorf("%d instances ran slots, want nearly all", len(holders))
		}
		if len(d.all()) != slots || len(runs) != slots {
			t.Errorf("%d runs of %d slots, want %d", len(d.all()), len(runs), slots)
		}
		for _, row := range tb.Slots() {
			if row.State != string(schedule.StateDone) || row.Attempt != 1 {
				t.Errorf("%+v", row)
			}
		}
	})
}

// A span comes every second, from an instant up to, but not at, another.
type span struct{ from, to time.Time }

func (s span) Next(after time.Time) time.Time {
	next := after.Truncate(time.Second).Add(time.Second)
	if next.Before(s.from) {
		next = s.from
	}
	if !next.Before(s.to) {
		return time.Time{}
	}
	return next
}

// The server boots with a wrong clock, and gets it right a minute later.
func TestScheduleGoesOnAfterTheDatabasesClockWasFarAhead(t *testing.T) {
	for name, policy := range map[string]schedule.Policy{
		"latest": {},
		"all":    {CatchUp: schedule.CatchUpAll},
		"skip":   {CatchUp: schedule.CatchUpSkip},
	} {
		for _, fresh := range []bool{false, true} { // whether the job has no slots on record
			t.Run(fmt.Sprintf("%s, %v", name, fresh), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					tb := pgfake.NewTable()
					d := &diary{table: tb}
					const wrong = 10 * 365 * 24 * time.Hour
					until(30 * time.Minute)
					if !fresh {
						putSlot(tb, midnight(), schedule.StateDone, 1)
					} else {
						tb.Step(wrong)
					}
					start(t, tb, leader.Config{}).follow(t, hourly, policy, d.work(0))
					time.Sleep(time.Minute)
					if !fresh {
						tb.Step(wrong)
					}
					time.Sleep(time.Minute)
					tb.Step(-wrong)
					until(3*time.Hour + time.Minute)
					ran := 0
					for _, row := range tb.Slots() {
						since := row.Slot.Sub(midnight())
						if row.State == string(schedule.StateDone) && since > 0 && since < 4*time.Hour {
							ran++
						}
					}
					if ran != 3 {
						t.Errorf("%d of 3 slots were run since the clock is right", ran)
					}
				})
			})
		}
	}
}

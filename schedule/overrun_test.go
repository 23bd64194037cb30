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

// An hourly job takes a little more than three hours, from 01:00 on.
func TestSlotsThatComeDueDuringALongRunAreDecidedAsThePolicySays(t *testing.T) {
	const (
		inAnHour = "nobody could start it within 1h0m0s"
		inTwo    = "nobody could start it within 2h0m0s"
		running  = "the job was running, or nobody led it"
		later    = "a later slot was due"
	)
	latest := []string{
		"01:00 done 1", "02:00 missed 0", "03:00 missed 0",
		"04:00 done 1", "05:00 missed 0", "06:00 missed 0",
		"07:00 done 1", "08:00 missed 0", "09:00 missed 0",
		"10:00 running 1",
	}
	for _, tt := range []struct {
		name   string
		policy schedule.Policy
		want   []string // at 12:30
		why    []string // of the missed slots, in the order of the slots
	}{
		{
			"skip",
			schedule.Policy{CatchUp: schedule.CatchUpSkip},
			[]string{
				"01:00 done 1", "02:00 missed 0", "03:00 missed 0", "04:00 missed 0",
				"05:00 done 1", "06:00 missed 0", "07:00 missed 0", "08:00 missed 0",
				"09:00 done 1", "10:00 missed 0", "11:00 missed 0", "12:00 missed 0",
			},
			[]string{
				inAnHour, inAnHour, running,
				inAnHour, inAnHour, running,
				inAnHour, inAnHour, running,
			},
		},
		{"latest", schedule.Policy{}, latest, slices.Repeat([]string{inAnHour}, 6)},
		{
			"latest within a day",
			schedule.Policy{Grace: 24 * time.Hour},
			latest, slices.Repeat([]string{later}, 6),
		},
		{
			"all within a day",
			schedule.Policy{CatchUp: schedule.CatchUpAll, Grace: 24 * time.Hour},
			[]string{"01:00 done 1", "02:00 done 1", "03:00 done 1", "04:00 running 1"},
			nil,
		},
		{
			// At 04:01 the slots of 03:00 and 04:00 can both be started in time, but only one of
			// them is.
			"all within two hours",
			schedule.Policy{CatchUp: schedule.CatchUpAll, Grace: 2 * time.Hour},
			[]string{
				"01:00 done 1", "02:00 missed 0",
				"03:00 done 1", "04:00 missed 0", "05:00 missed 0",
				"06:00 done 1", "07:00 missed 0", "08:00 missed 0",
				"09:00 running 1",
			},
			slices.Repeat([]string{inTwo}, 5),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				d := &diary{table: tb}
				until(30 * time.Minute)
				p := start(t, tb, leader.Config{})
				p.follow(t, hourly, tt.policy, d.work(3*time.Hour+time.Minute))
				until(12*time.Hour + 30*time.Minute)
				wantOutcomes(t, tb, tt.want...)
				var why []string
				ran := 0
				for _, row := range tb.Slots() {
					if row.State == string(schedule.StateMissed) {
						why = append(why, row.Error)
					} else {
						ran++
					}
				}
				if !slices.Equal(why, tt.why) {
					t.Errorf("slots were missed because %q, want %q", why, tt.why)
				}
				if runs := d.all(); len(runs) != ran {
					t.Errorf("%d runs, %d on record", len(runs), ran)
				}
			})
		})
	}
}

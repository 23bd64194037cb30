package contract_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

func TestCatchUpOfAnHourOfSlotsIsWhatThePolicySays(t *testing.T) {
	const interval = 5 * time.Minute
	for _, tt := range []struct {
		name     string
		policy   schedule.Policy
		runs     int // of the slots up to now
		missed   int
		earliest int // intervals back of the first one that is run
	}{
		{"latest", schedule.Policy{Grace: 2 * time.Hour}, 1, 11, 0},
		{"all", schedule.Policy{Grace: 2 * time.Hour, CatchUp: schedule.CatchUpAll}, 12, 0, 11},
		{
			"all within grace",
			schedule.Policy{Grace: 28 * time.Minute, CatchUp: schedule.CatchUpAll},
			6, 6, 5,
		},
		{"none within grace", schedule.Policy{Grace: time.Millisecond}, 0, 12, 0},
		{"skip", schedule.Policy{Grace: 2 * time.Hour, CatchUp: schedule.CatchUpSkip}, 0, 12, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			forEachDriver(t, func(t *testing.T, driver, url string) {
				pool := pgtest.Open(t, driver, url)
				// The grid lies so that the newest slot was two minutes ago, and the next one is three minutes
				// ahead.
				newest := databaseNow(t, pool).Add(-2 * time.Minute).Truncate(time.Second)
				done(t, pool, "hourly", newest.Add(-12*interval), "done", 1)
				e := slotElector(t, pool, leader.Config{})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				finished := make(chan error, 1)
				go func() {
					work := func(context.Context, *schedule.Slot) error { return nil }
					finished <- e.Scheduler.Run(ctx, "hourly", grid{newest, interval}, tt.policy, work)
				}()
				want := 1 + tt.runs + tt.missed
				eventually(t, "every slot is decided", func() bool {
					h := history(t, e, "hourly")
					return len(h) == want && h[0].State != schedule.StateRunning
				})
				cancel()
				<-finished
				var runs, missed int
				var first time.Time
				for _, r := range history(t, e, "hourly")[:want-1] {
					switch r.State {
					case schedule.StateDone:
						runs++
						first = r.Slot
					case schedule.StateMissed:
						missed++
						if r.Error == "" || r.Attempt != 0 {
							t.Errorf("missed without a reason: %+v", r)
						}
					default:
						t.Errorf("%+v", r)
					}
				}
				if runs != tt.runs || missed != tt.missed {
					t.Errorf("%d runs and %d missed, want %d and %d", runs, missed, tt.runs, tt.missed)
				}
				earliest := newest.Add(-time.Duration(tt.earliest) * interval)
				if runs > 0 && !first.Equal(earliest) {
					t.Errorf("the first to be run is %v, want %v", first, earliest)
				}
			})
		})
	}
}

func TestSlotThatWasCutOffIsRunAgainUpToItsAttempts(t *testing.T) {
	for _, tt := range []struct {
		name    string
		attempt int
		state   schedule.State
		again   bool
	}{
		{"first attempt", 1, schedule.StateDone, true},
		{"last attempt", 3, schedule.StateAbandoned, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			forEachDriver(t, func(t *testing.T, driver, url string) {
				pool := pgtest.Open(t, driver, url)
				slot := databaseNow(t, pool).Add(-time.Minute).Truncate(time.Second)
				done(t, pool, "nightly", slot, "running", tt.attempt)
				e := slotElector(t, pool, leader.Config{})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				finished := make(chan error, 1)
				var runs atomic.Int32
				go func() {
					finished <- e.Scheduler.Run(ctx, "nightly", grid{slot, time.Hour}, schedule.Policy{},
						func(context.Context, *schedule.Slot) error {
							runs.Add(1)
							return nil
						})
				}()
				eventually(t, "the slot is decided", func() bool {
					return history(t, e, "nightly")[0].State == tt.state
				})
				cancel()
				<-finished
				if again := runs.Load() == 1; again != tt.again {
					t.Errorf("%d runs", runs.Load())
				}
				if r := history(t, e, "nightly")[0]; tt.again && r.Attempt != tt.attempt+1 {
					t.Errorf("%+v, want attempt %d", r, tt.attempt+1)
				}
			})
		})
	}
}

package contract_test

import (
	"context"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/schedule"
)

// Slots that a clock far ahead has made due stay decided when it is set right, and what comes after
// them is run when its time comes. One that a clock far behind makes due is run, if it was never
// decided.
func TestSlotIsRunOnceHoweverTheServersClockIsSet(t *testing.T) {
	t.Parallel()
	onServerWithClock(t, func(t *testing.T, driver, url string, set func(time.Duration)) {
		pool := pgtest.Open(t, driver, url)
		e := slotElector(t, pool, quick)
		begin := databaseNow(t, pool).Add(-30 * time.Minute)
		runs := map[time.Duration]int{}
		turn := func() {
			t.Helper()
			policy := schedule.Policy{CatchUp: schedule.CatchUpAll, Grace: 4 * time.Hour}
			work := func(_ context.Context, s *schedule.Slot) error {
				runs[s.Time().Sub(begin)]++
				return nil
			}
			if _, err := e.RunDue(t.Context(), job, hourly(begin), policy, work); err != nil {
				t.Fatal(err)
			}
		}
		turn()
		for _, step := range []struct {
			ahead time.Duration
			runs  int // of different slots, up to then
		}{{3 * time.Hour, 4}, {0, 4}, {-24 * time.Hour, 5}, {2 * time.Hour, 5}, {5 * time.Hour, 7}} {
			set(step.ahead)
			turn()
			if len(runs) != step.runs {
				t.Errorf("%v ahead: the slots %v were run, want %d", step.ahead, runs, step.runs)
			}
		}
		for slot, n := range runs {
			if n != 1 {
				t.Errorf("the slot at %v was run %d times", slot, n)
			}
		}
	})
}

// hourly comes at every full hour since, and before, a moment.
type hourly time.Time

func (h hourly) Next(after time.Time) time.Time {
	return after.Add(time.Hour - ((after.Sub(time.Time(h))%time.Hour)+time.Hour)%time.Hour)
}

package operator

import (
	"errors"
	"testing"
	"time"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/words"
	"github.com/pgleader/pgleader/schedule"
)

func TestOnlyDecidedSlotsOnRecordAreRepeatable(t *testing.T) {
	t.Parallel()
	night := func(day int) time.Time { return time.Date(2026, 1, day, 2, 0, 0, 0, time.UTC) }
	run := func(day int, state schedule.State) schedule.Record {
		return schedule.Record{Job: "report", Slot: night(day), State: state, Holder: "web-1"}
	}
	few := []schedule.Record{
		run(5, schedule.StateRunning), run(4, schedule.StateMissed), run(3, schedule.StateFailed),
		run(1, schedule.StateDone),
	}
	many := make([]schedule.Record, Depth)
	for i := range many {
		many[i] = run(31, schedule.StateDone)
	}
	for name, row := range map[string]struct {
		runs  []schedule.Record
		slot  time.Time
		state schedule.State // "" if it is refused
		hint  string
	}{
		"nothing on record": {
			nil, time.Time{}, "", "only slots that were run or missed can be run again; " +
				"'pgleader status' shows how the jobs are called",
		},
		"the latest": {few[1:], time.Time{}, schedule.StateMissed, ""},
		"the latest, running": {
			few, time.Time{}, "", "wait for its end, or take the job away from its leader with " +
				"'pgleader dismiss'; a slot that was cut off is run again by itself",
		},
		"one of them":           {few, night(3), schedule.StateFailed, ""},
		"less than a digit off": {few, night(3).Add(-999), schedule.StateFailed, ""},
		"not on record": {
			few, night(2).Add(time.Hour), "", "the nearest that are: " +
				"2026-01-01T02:00:00Z, 2026-01-03T02:00:00Z, 2026-01-04T02:00:00Z",
		},
		"older than what is searched": {many, night(2), "decided", ""},
	} {
		got, err := repeatable("report", row.runs, row.slot)
		if row.state != "" {
			if err != nil || got.State != row.state {
				t.Errorf("%s: %+v, %v; want %s", name, got, err, row.state)
			}
			continue
		}
		var refused *NotRepeatableError
		if hint, _ := words.HintOf(err); !errors.As(err, &refused) || hint != row.hint {
			t.Errorf("%s: %v, hint %q; want %q", name, err, hint, row.hint)
		}
	}
}

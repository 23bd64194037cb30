package operator

import (
	"errors"
	"testing"
	"time"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/words"
	"github.com/pgleader/pgleader/leader"
)

func TestOnlyDecidedSlotsOnRecordAreRepeatable(t *testing.T) {
	t.Parallel()
	night := func(day int) time.Time { return time.Date(2026, 1, day, 2, 0, 0, 0, time.UTC) }
	run := func(day int, state leader.SlotState) leader.SlotRun {
		return leader.SlotRun{Job: "report", Slot: night(day), State: state, Holder: "web-1"}
	}
	few := []leader.SlotRun{
		run(5, leader.SlotRunning), run(4, leader.SlotMissed), run(3, leader.SlotFailed),
		run(1, leader.SlotDone),
	}
	many := make([]leader.SlotRun, Depth)
	for i := range many {
		many[i] = run(31, leader.SlotDone)
	}
	for name, row := range map[string]struct {
		runs  []leader.SlotRun
		slot  time.Time
		state leader.SlotState // "" if it is refused
		hint  string
	}{
		"nothing on record": {
			nil, time.Time{}, "", "only slots that were run or missed can be run again; " +
				"'pgleader status' shows how the jobs are called",
		},
		"the latest": {few[1:], time.Time{}, leader.SlotMissed, ""},
		"the latest, running": {
			few, time.Time{}, "", "wait for its end, or take the job away from its leader with " +
				"'pgleader dismiss'; a slot that was cut off is run again by itself",
		},
		"one of them":           {few, night(3), leader.SlotFailed, ""},
		"less than a digit off": {few, night(3).Add(999), leader.SlotFailed, ""},
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

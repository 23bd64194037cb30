package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/words"
	"github.com/pgleader/pgleader/schedule"
)

// Depth is how many slots of a job are searched.
const Depth = 1000

// A NotRepeatableError says why a slot cannot be run again.
type NotRepeatableError struct{ Err error }

func (e *NotRepeatableError) Error() string { return e.Err.Error() }

// Unwrap returns the reason, with a hint.
func (e *NotRepeatableError) Unwrap() error { return e.Err }

// Repeatable returns the record of a slot that is decided, or of the job's latest if slot is the
// zero time. The error is a [NotRepeatableError] if there is none.
//
// A slot that is older than the latest thousand has the state "decided": it may be on record.
func (o *Operator) Repeatable(ctx context.Context, job string, slot time.Time) (
	schedule.Record, error,
) {
	runs, err := o.History(ctx, job, Depth)
	if err != nil {
		return schedule.Record{}, err
	}
	return repeatable(job, runs, slot)
}

// repeatable finds the slot among the latest, newest first.
func repeatable(job string, runs []schedule.Record, slot time.Time) (schedule.Record, error) {
	if len(runs) == 0 {
		return refused(fmt.Errorf("no slot of %s is on record", words.Name(job)),
			"only slots that were run or missed can be run again; "+
				"'pgleader status' shows how the jobs are called")
	}
	if slot.IsZero() {
		return unlessRunning(runs[0])
	}
	slot = slot.UTC()
	for _, run := range runs {
		if words.SameSlot(run.Slot, slot) {
			return unlessRunning(run)
		}
	}
	if len(runs) == Depth && slot.Before(runs[len(runs)-1].Slot) {
		return schedule.Record{Job: job, Slot: slot, State: "decided"}, nil
	}
	return refused(fmt.Errorf("slot %s of %s is not on record", words.Slot(slot), words.Name(job)),
		"the nearest that are: %s", nearest(runs, slot))
}

func unlessRunning(run schedule.Record) (schedule.Record, error) {
	if run.State != schedule.StateRunning {
		return run, nil
	}
	return refused(fmt.Errorf("slot %s of %s is running, under %s",
		words.Slot(run.Slot), words.Name(run.Job), words.Name(run.Holder)),
		"wait for its end, or take the job away from its leader with 'pgleader dismiss'; "+
			"a slot that was cut off is run again by itself")
}

func refused(err error, hint string, args ...any) (schedule.Record, error) {
	return schedule.Record{}, &NotRepeatableError{words.WithHint(err, hint, args...)}
}

// nearest lists the three slots on record that are closest to an instant, in the order of time.
func nearest(runs []schedule.Record, to time.Time) string {
	slots := slices.Clone(runs)
	slices.SortStableFunc(slots, func(a, b schedule.Record) int {
		return int(a.Slot.Sub(to).Abs().Microseconds() - b.Slot.Sub(to).Abs().Microseconds())
	})
	slots = slots[:min(len(slots), 3)]
	slices.SortFunc(slots, func(a, b schedule.Record) int { return a.Slot.Compare(b.Slot) })
	stamps := make([]string, len(slots))
	for i, run := range slots {
		stamps[i] = words.Slot(run.Slot)
	}
	return strings.Join(stamps, ", ")
}

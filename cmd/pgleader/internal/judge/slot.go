package judge

import (
	"time"

	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

// CutOff is the state of a slot that the table has as running, under a term that is over.
const CutOff schedule.State = "cut off"

// SlotState is the slot's state in the light of its job's lease, which must have been read after
// it.
func SlotState(run schedule.Record, lease leader.Lease) schedule.State {
	if run.State == schedule.StateRunning && (!lease.Live() || lease.Token > run.Token) {
		return CutOff
	}
	return run.State
}

// Took is how long the slot's last attempt took, or has taken until now. Known is false if nobody
// can tell.
func Took(run schedule.Record, lease leader.Lease, now time.Time) (took time.Duration, known bool) {
	switch {
	case run.StartedAt.IsZero():
		return 0, false
	case !run.FinishedAt.IsZero():
		return run.FinishedAt.Sub(run.StartedAt), true
	}
	return now.Sub(run.StartedAt), SlotState(run, lease) == schedule.StateRunning
}

// newestDone splits the latest slots, newest first, at the newest that was done.
func newestDone(runs []schedule.Record) (done *schedule.Record, since []schedule.Record) {
	for i := range runs {
		if runs[i].State == schedule.StateDone {
			return &runs[i], runs[:i]
		}
	}
	return nil, runs
}

// wentWrong reports whether a slot in this state deserves a warning.
func wentWrong(s schedule.State) bool {
	switch s {
	case schedule.StateFailed, schedule.StateAbandoned, schedule.StateMissed, CutOff:
		return true
	default:
		return false
	}
}

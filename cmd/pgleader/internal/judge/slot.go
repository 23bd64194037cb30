package judge

import (
	"time"

	"github.com/pgleader/pgleader/leader"
)

// CutOff is the state of a slot that the table has as running, under a term that is over.
const CutOff leader.SlotState = "cut off"

// SlotState is the slot's state in the light of its job's lease, which must have been read after
// it.
func SlotState(run leader.SlotRun, lease leader.Lease) leader.SlotState {
	if run.State == leader.SlotRunning && (!lease.Live() || lease.Token > run.Token) {
		return CutOff
	}
	return run.State
}

// Took is how long the slot's last attempt took, or has taken until now. Known is false if nobody
// can tell.
func Took(run leader.SlotRun, lease leader.Lease, now time.Time) (took time.Duration, known bool) {
	switch {
	case run.StartedAt.IsZero():
		return 0, false
	case !run.FinishedAt.IsZero():
		return run.FinishedAt.Sub(run.StartedAt), true
	}
	return now.Sub(run.StartedAt), SlotState(run, lease) == leader.SlotRunning
}

// newestDone splits the latest slots, newest first, at the newest that was done.
func newestDone(runs []leader.SlotRun) (done *leader.SlotRun, since []leader.SlotRun) {
	for i := range runs {
		if runs[i].State == leader.SlotDone {
			return &runs[i], runs[:i]
		}
	}
	return nil, runs
}

// wentWrong reports whether a slot in this state deserves a warning.
func wentWrong(s leader.SlotState) bool {
	switch s {
	case leader.SlotFailed, leader.SlotAbandoned, leader.SlotMissed, CutOff:
		return true
	default:
		return false
	}
}

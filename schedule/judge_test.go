package schedule_test

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/schedule"
)

// patience is how long a leader may take from a look at the clock to the start of a slot. That
// allows for statements that are slow or lost.
const patience = 5 * time.Second

// wallCheck is how often a process with a TTL of two seconds looks at its wall clock.
const wallCheck = 100 * time.Millisecond

// judgeStart judges whether the slot may be started now.
func (seen *witness) judgeStart(s *schedule.Slot, now time.Time) {
	at, policy, earlier := s.Time(), seen.story.policy, seen.runs[s.Time()]
	// A suspended machine learns of it only after waking. Until then two may work, as
	// docs/guarantees.md says.
	if seen.alive > 1 && time.Since(seen.woke) > wallCheck {
		seen.fail("slot %v is begun beside another work", at)
	}
	if now.Before(at) {
		seen.fail("slot %v is run at %v", at, now)
	}
	if slices.ContainsFunc(earlier, func(r *run) bool { return r.effect }) {
		seen.fail("slot %v is run again after it was completed", at)
	}
	if state := seen.reported[at]; final(state, policy) {
		seen.fail("slot %v is run again after it was reported as %s", at, state)
	}
	if time.Since(seen.woke) <= patience {
		return // the clock may have jumped since the process looked at it
	}
	if late := now.Sub(at); s.Attempt() == 1 && late > policy.Grace+patience {
		seen.fail("slot %v is started %v late, want at most %v", at, late, policy.Grace)
	}
	takenUp := len(earlier) > 0 && earlier[len(earlier)-1].token != s.Term().Token()
	if takenUp && policy.CatchUp == schedule.CatchUpLatest {
		newest := now.Add(-patience).Truncate(seen.story.interval)
		if newest.After(at) && now.Sub(newest) < policy.Grace {
			seen.fail("slot %v is started again at %v, in place of slot %v", at, now, newest)
		}
	}
}

// judge judges the table, when all is over.
func (seen *witness) judge() error {
	seen.mu.Lock()
	defer seen.mu.Unlock()
	rows := seen.table.Slots()
	due := every(seen.story.interval).Next(seen.began)
	if len(rows) > 0 && len(seen.hired) > 3 && rows[0].Slot.After(due) {
		// If all who saw the job begin are gone, it begins with its last renewal.
		due = rows[0].Slot
	}
	for _, row := range rows {
		if !row.Slot.Equal(due) {
			seen.fail("slot %v is on record, want slot %v", row.Slot, due)
		}
		due = row.Slot.Add(seen.story.interval)
		seen.judgeRow(row)
	}
	if due.Before(seen.ended.Add(-patience)) {
		seen.fail("slot %v came due and is not on record", due)
	}
	return errors.Join(seen.failures...)
}

// judgeRow judges what became of a slot by what its works did.
func (seen *witness) judgeRow(row db.LeaderSlot) {
	policy, runs, state := seen.story.policy, seen.runs[row.Slot], schedule.State(row.State)
	effects := 0
	for _, r := range runs {
		if r.effect {
			effects++
		}
	}
	// The run of the attempt on record, or the zero value if its work was never started.
	var last run
	if n := len(runs); n > 0 && runs[n-1].attempt == int(row.Attempt) {
		last = *runs[n-1]
	}
	fail := func(what string) {
		seen.fail("slot %v %s: it was run %d times with %d effects, last as %+v, and the record is %+v",
			row.Slot, what, len(runs), effects, last, row)
	}
	if reported := seen.reported[row.Slot]; reported != state && final(reported, policy) {
		fail("is not what was reported, " + string(reported))
	}
	if int(row.Attempt) > policy.Attempts || len(runs) > int(row.Attempt) {
		fail("was started too often")
	}
	if effects > 1 || effects == 1 && state != schedule.StateDone {
		fail("has effects that its state denies")
	}
	if (state == schedule.StateDone) != (row.Error == "") {
		fail("has an error and should not, or the reverse")
	}
	switch state {
	case schedule.StateDone:
		if !last.done() {
			fail("is done, and its work has not done it")
		}
	case schedule.StateFailed:
		if !last.failed() {
			fail("is failed, and its work has not failed")
		}
	case schedule.StateMissed:
		if row.Attempt != 0 {
			fail("is missed, and was started")
		}
	case schedule.StateAbandoned:
		if strings.HasPrefix(row.Error, "interrupted") && !last.cutOff() {
			fail("is abandoned, and its work was not cut off")
		}
		again := int(row.Attempt) < policy.Attempts && policy.CatchUp == schedule.CatchUpAll
		if again && row.FinishedAt.Time.Before(seen.ended) {
			fail("was cut off, and not run again")
		}
	default:
		fail("is left " + row.State)
	}
}

// final reports whether a slot in that state is never run again.
func final(state schedule.State, policy schedule.Policy) bool {
	return state == schedule.StateDone || state == schedule.StateFailed && !policy.RepeatFailed
}

func (r run) done() bool {
	return r.effect || r.returned && r.err == nil && !r.lost && r.ends == returns
}

func (r run) failed() bool {
	if !r.returned || r.lost {
		return false
	}
	return r.err != nil && !r.cut || r.err == nil && r.ends == rollsBack
}

func (r run) cutOff() bool { return r.returned && r.err != nil && r.cut }

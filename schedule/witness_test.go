package schedule_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/internal/pgfake"
	"github.com/pgleader/pgleader/schedule"
)

// A record is what the works of all processes did, written down outside of the table.
type record struct {
	table *pgfake.Table
	story slotStory
	hired []*worker
	began time.Time

	mu       sync.Mutex
	alive    int // works of the job under a live term
	works    int // that were begun
	runs     map[time.Time][]*run
	reported map[time.Time]schedule.State // what a process said that a slot has come to
	calm     bool                         // nothing befalls anybody any more, and the works do nothing
	woke     time.Time                    // when the machines were last suspended
	ended    time.Time                    // when the processes were shut down
	failures []error
}

// A run is one run of a slot.
type run struct {
	attempt int
	token   int64
	ends    string

	returned bool
	err      error
	cut      bool // its context had ended when it returned
	lost     bool // its term had
	effect   bool // Complete was committed
}

// patience is how long a leader may take from a look at the clock to the start of a slot, if
// statements are slow or lost.
const patience = 5 * time.Second

// wallCheck is how often a process with a TTL of two seconds looks at its wall clock.
const wallCheck = 100 * time.Millisecond

func newRecord(tb *pgfake.Table, story slotStory) *record {
	return &record{
		table: tb, story: story, began: tb.Clock(),
		runs: make(map[time.Time][]*run), reported: make(map[time.Time]schedule.State),
	}
}

func (rec *record) fail(format string, args ...any) {
	rec.failures = append(rec.failures, fmt.Errorf(format, args...))
}

func (rec *record) calmDown() {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.calm = true
}

func (rec *record) end() {
	now := rec.table.Clock()
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.ended = now
}

// hear is told by the processes what became of the slots.
func (rec *record) hear(event schedule.Event) {
	if event.Kind == schedule.EventFinished {
		rec.mu.Lock()
		defer rec.mu.Unlock()
		rec.reported[event.Slot] = event.State
	}
}

// begin notes that the work for a slot begins, and returns what it is to do.
func (rec *record) begin(w *worker, s *schedule.Slot) (*run, slotWork) {
	now := rec.table.Clock()
	rec.mu.Lock()
	defer rec.mu.Unlock()
	at, policy := s.Time(), rec.story.policy
	earlier := rec.runs[at]
	// A suspended machine learns of it only after waking: until then two may work, as
	// docs/guarantees.md says.
	if rec.alive++; rec.alive > 1 && time.Since(rec.woke) > wallCheck {
		rec.fail("slot %v is begun beside another work", at)
	}
	if now.Before(at) {
		rec.fail("slot %v is run at %v", at, now)
	}
	if slices.ContainsFunc(earlier, func(r *run) bool { return r.effect }) {
		rec.fail("slot %v is run again after it was completed", at)
	}
	if state := rec.reported[at]; state == schedule.StateDone || state == schedule.StateFailed && !policy.RepeatFailed {
		rec.fail("slot %v is run again after it was reported as %s", at, state)
	}
	rested := time.Since(rec.woke) > patience // else the clock may have jumped since the process looked at it
	if late := now.Sub(at); s.Attempt() == 1 && late > policy.Grace+patience && rested {
		rec.fail("slot %v is started %v late, want at most %v", at, late, policy.Grace)
	}
	if len(earlier) > 0 && earlier[len(earlier)-1].token != s.Term().Token() && policy.CatchUp == schedule.CatchUpLatest && rested {
		newest := now.Add(-patience).Truncate(rec.story.interval)
		if newest.After(at) && now.Sub(newest) < policy.Grace {
			rec.fail("slot %v is started again at %v, in place of slot %v", at, now, newest)
		}
	}

	rec.works++
	todo := rec.story.works[rec.works%len(rec.story.works)]
	todo.takes += 137 * time.Microsecond // strokes come at whole milliseconds: never just when a work ends
	if rec.calm {
		todo = slotWork{ends: returns}
	}
	r := &run{attempt: s.Attempt(), token: s.Term().Token(), ends: todo.ends}
	rec.runs[at] = append(earlier, r)
	return r, todo
}

// leaveOff notes that a work ends, or its term.
func (rec *record) leaveOff() {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.alive--
}

// judge compares the record with the table, when all is over.
func (rec *record) judge() error {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rows := rec.table.Slots()
	due := every(rec.story.interval).Next(rec.began)
	if len(rows) > 0 && len(rec.hired) > 3 && rows[0].Slot.After(due) {
		due = rows[0].Slot // a job without slots on record begins with its last renewal, if all who saw it begin are gone
	}
	for _, row := range rows {
		if !row.Slot.Equal(due) {
			rec.fail("slot %v is on record, want slot %v", row.Slot, due)
		}
		due = row.Slot.Add(rec.story.interval)
		rec.judgeRow(row)
	}
	if due.Before(rec.ended.Add(-patience)) {
		rec.fail("slot %v came due and is not on record", due)
	}
	return errors.Join(rec.failures...)
}

func (rec *record) judgeRow(row db.LeaderSlot) {
	policy, runs, state := rec.story.policy, rec.runs[row.Slot], schedule.State(row.State)
	effects := 0
	for _, r := range runs {
		if r.effect {
			effects++
		}
	}
	var last run // of the attempt on record; the zero value if the process did not get so far as to start its work
	if n := len(runs); n > 0 && runs[n-1].attempt == int(row.Attempt) {
		last = *runs[n-1]
	}
	fail := func(what string) {
		rec.fail("slot %v %s: it was run %d times with %d effects, last as %+v, and the record is %+v",
			row.Slot, what, len(runs), effects, last, row)
	}
	final := func(state schedule.State) bool {
		return state == schedule.StateDone || state == schedule.StateFailed && !policy.RepeatFailed
	}
	if reported := rec.reported[row.Slot]; reported != state && final(reported) {
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
		if !last.effect && (!last.returned || last.err != nil || last.lost || last.ends != returns) {
			fail("is done, and its work has not done it")
		}
	case schedule.StateFailed:
		if !last.returned || last.lost || last.err != nil && last.cut || last.err == nil && last.ends != rollsBack {
			fail("is failed, and its work has not failed")
		}
	case schedule.StateMissed:
		if row.Attempt != 0 {
			fail("is missed, and was started")
		}
	case schedule.StateAbandoned:
		if strings.HasPrefix(row.Error, "interrupted") && (!last.returned || !last.cut || last.err == nil) {
			fail("is abandoned, and its work was not cut off")
		}
		if int(row.Attempt) < policy.Attempts && policy.CatchUp == schedule.CatchUpAll && row.FinishedAt.Time.Before(rec.ended) {
			fail("was cut off, and not run again")
		}
	default:
		fail("is left " + row.State)
	}
}

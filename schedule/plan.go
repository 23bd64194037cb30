package schedule

import (
	"fmt"
	"time"
)

const (
	maxWait     = 30 * time.Second // between two looks at the database's clock: see plan.wait
	maxRecorded = 1000             // missed slots that are recorded at once, the latest ones
)

// A planner says what to do with the slots of a schedule. It asks no database and no clock.
type planner struct {
	schedule Schedule
	policy   Policy
}

// A plan is what to do with the slots that have come due.
type plan struct {
	run       []time.Time   // to be started now: one, for when it has ended others may be too late
	missed    []omission    // to be recorded as missed, oldest first
	overtaken bool          // slots have come due since the newest on record
	next      time.Time     // the first slot after now, zero if there is none
	wait      time.Duration // until the next slot, or maxWait: no timer follows a suspended machine
}

// An omission is some slots that are missed for one reason.
type omission struct {
	why   string
	slots []time.Time
}

func (p *plan) miss(at time.Time, why string) {
	if n := len(p.missed); n == 0 || p.missed[n-1].why != why {
		p.missed = append(p.missed, omission{why: why})
	}
	last := &p.missed[len(p.missed)-1]
	last.slots = append(last.slots, at)
}

// plan sorts the slots after from, up to now. Slots up to idle came due while nobody was there to
// start them.
func (r planner) plan(from, now, idle time.Time) (plan, error) {
	p := plan{wait: maxWait}
	until := now
	if r.policy.CatchUp == CatchUpAll {
		// Of those that come later only the first one is asked for: there may be very many, and all of
		// them are to run.
		until = now.Add(-r.policy.Grace).Add(-1)
	}
	due, next, err := r.due(from, until)
	if err == nil && !next.IsZero() && !next.After(now) {
		p.run = append(p.run, next)
		next, err = r.next(now)
	}
	if err != nil {
		return p, err
	}
	p.next = next
	if !next.IsZero() {
		p.wait = min(p.wait, next.Sub(now))
	}
	for i, at := range due {
		switch {
		case now.Sub(at) > r.policy.Grace:
			p.miss(at, fmt.Sprintf("nobody could start it within %v", r.policy.Grace))
		case r.policy.CatchUp == CatchUpSkip && !at.After(idle):
			p.miss(at, "the job was running, or nobody led it")
		case i < len(due)-1:
			p.miss(at, "a later slot was due")
		default:
			p.run = append(p.run, at)
		}
	}
	p.overtaken = len(p.run) > 0 || len(p.missed) > 0
	return p, nil
}

// due returns the schedule's instants after from, up to now, and the first one after now, if there
// is any. Of very many it returns the latest maxRecorded or a few more.
func (r planner) due(from, now time.Time) (due []time.Time, next time.Time, err error) {
	due, next, err = r.some(from, now)
	if err != nil || len(due) < 2*maxRecorded {
		return due, next, err
	}
	// Look for an instant that has fewer after it, so that a year of seconds does not take a year of
	// steps.
	many, few := from.UTC(), now.UTC()
	for few.Sub(many) > time.Microsecond {
		middle := many.Add(few.Sub(many) / 2)
		switch due, next, err = r.some(middle, now); {
		case err != nil:
			return due, next, err
		case len(due) < maxRecorded:
			few = middle
		case len(due) == 2*maxRecorded:
			many = middle
		default:
			return due, next, nil
		}
	}
	return r.some(few, now)
}

// some is due for the first 2*maxRecorded instants at most. If there are so many, next is not set.
func (r planner) some(from, now time.Time) (due []time.Time, next time.Time, err error) {
	at := from.UTC()
	for {
		next, err = r.next(at)
		if err != nil || next.IsZero() || next.After(now) {
			return due, next, err
		}
		due = append(due, next)
		at = next
		if len(due) == 2*maxRecorded {
			return due, time.Time{}, nil
		}
	}
}

// next asks the schedule, at the database's precision.
func (r planner) next(after time.Time) (time.Time, error) {
	at := r.schedule.Next(after)
	if at.IsZero() {
		return at, nil
	}
	at = ceil(at)
	if !at.After(after) {
		return at, fmt.Errorf("%w: its next instant after %s is %s", ErrSchedule,
			after.Format(time.RFC3339Nano), at.Format(time.RFC3339Nano))
	}
	return at, nil
}

// ceil brings an instant to the database's precision, up, so that it does not come before itself.
func ceil(at time.Time) time.Time {
	at = at.UTC()
	if whole := at.Truncate(time.Microsecond); whole.Before(at) {
		return whole.Add(time.Microsecond)
	}
	return at.Round(0)
}

// restartable returns since when slots that were cut off are started again: the newest one on
// record, unless a later one has overtaken it. Who catches up on all leaves none out.
func (r planner) restartable(newest, now time.Time, overtaken bool) time.Time {
	switch {
	case r.policy.CatchUp == CatchUpAll:
		return earlier(newest, now.Add(-r.policy.Grace))
	case overtaken:
		return now
	}
	return newest
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

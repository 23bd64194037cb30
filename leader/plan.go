package leader

import (
	"fmt"
	"time"
)

// A plan is what to do with the slots that have come due.
type plan struct {
	run    []time.Time            // to be started now, oldest first
	missed map[string][]time.Time // to be recorded as missed, by the reason
	next   time.Time              // the first slot after now, zero if there is none
	wait   time.Duration          // until the next slot, or until the database's clock should be asked again
}

// plan sorts the slots after from, up to now. Slots up to idle came due while nobody was there to start them.
func (r *roster) plan(from, now, idle time.Time) (plan, error) {
	due, next, err := r.due(from, now)
	p := plan{missed: make(map[string][]time.Time), next: next, wait: maxSlotWait}
	if err != nil {
		return p, err
	}
	if !next.IsZero() {
		p.wait = min(p.wait, next.Sub(now))
	}
	miss := func(at time.Time, why string) { p.missed[why] = append(p.missed[why], at) }
	for i, at := range due {
		switch {
		case now.Sub(at) > r.policy.Grace:
			miss(at, fmt.Sprintf("nobody could start it within %v", r.policy.Grace))
		case r.policy.CatchUp == CatchUpAll:
			p.run = append(p.run, at)
		case r.policy.CatchUp == CatchUpSkip && !at.After(idle):
			miss(at, "the job was running, or nobody led it")
		case i < len(due)-1:
			miss(at, "a later slot was due")
		default:
			p.run = append(p.run, at)
		}
	}
	return p, nil
}

// due returns the schedule's instants after from, up to now, and the first one after now, if there is any. Of very many
// it returns the latest maxRecorded or a few more.
func (r *roster) due(from, now time.Time) (due []time.Time, next time.Time, err error) {
	at := from.UTC()
	for {
		next, err = r.next(at)
		if err != nil || next.IsZero() || next.After(now) {
			return due, next, err
		}
		due = append(due, next)
		at = next
		if len(due) == 2*maxRecorded {
			// Halve the distance to now, so that a year of seconds does not take a year of steps.
			ahead := at.Add(now.Sub(at) / 2)
			if first, err := r.next(ahead); err == nil && !first.IsZero() && !first.After(now) {
				due, at = due[maxRecorded:], ahead
			} else {
				due = due[maxRecorded:]
			}
		}
	}
}

// next asks the schedule, at the database's precision.
func (r *roster) next(after time.Time) (time.Time, error) {
	at := r.schedule.Next(after)
	if at.IsZero() {
		return at, nil
	}
	at = at.UTC().Truncate(time.Microsecond)
	if !at.After(after) {
		return at, fmt.Errorf("%w: its next instant after %s is %s", ErrSchedule, after.Format(time.RFC3339Nano), at.Format(time.RFC3339Nano))
	}
	return at, nil
}

// restartable returns since when abandoned slots are started again: the newest slot only, and none if a later one is run instead.
func (r *roster) restartable(newest, now time.Time, later bool) time.Time {
	switch {
	case r.policy.CatchUp == CatchUpAll:
		return earlier(newest, now.Add(-r.policy.Grace))
	case later:
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

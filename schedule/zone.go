package schedule

import "time"

// InZone returns a schedule that means the local time of a zone, made of one that knows nothing of
// zones: it is asked in UTC, and the hours and minutes of its answers are taken for local ones.
// Give it a cron expression that was parsed without a time zone.
//
// It decides what cron libraries disagree about, the days when the clocks change. A time of day
// that is skipped comes at the first instant after the gap, once. A time of day that is repeated
// comes once, the first time; but a schedule that comes at least as often as the clocks are set
// back by, as every hour for most zones, goes on through both passes.
func InZone(s Schedule, zone *time.Location) Schedule { return zoned{s, zone} }

type zoned struct {
	schedule Schedule
	zone     *time.Location
}

// Next looks for the first local time that comes after the instant, in some pass of the clock.
func (z zoned) Next(after time.Time) time.Time {
	if at, plain := z.plain(after); plain {
		return at
	}
	local := wallClock(after.In(z.zone)).Add(-maxShift)
	var best time.Time
	for {
		local = z.schedule.Next(local)
		if local.IsZero() {
			return best
		}
		for _, at := range z.instants(local) {
			if at.After(after) && (best.IsZero() || at.Before(best)) {
				best = at
			}
		}
		if !best.IsZero() && local.After(wallClock(best.In(z.zone)).Add(maxShift)) {
			return best
		}
	}
}

// plain is Next where the clocks do not change nearby, which is nearly always.
func (z zoned) plain(after time.Time) (at time.Time, ok bool) {
	here := after.In(z.zone)
	_, offset := here.Zone()
	start, end := here.ZoneBounds()
	local := z.schedule.Next(wallClock(here))
	if local.IsZero() {
		return time.Time{}, start.IsZero() || start.Before(after.Add(-maxShift))
	}
	at = local.Add(-time.Duration(offset) * time.Second)
	return at, (start.IsZero() || start.Before(after.Add(-maxShift))) && (end.IsZero() || at.Before(end.Add(-maxShift)))
}

// maxShift is more than any zone sets its clocks by at once, but for those that moved across the
// date line.
const maxShift = 3 * time.Hour

// wallClock returns what the clock shows, as a time in UTC.
func wallClock(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

// instants returns when the schedule's local time comes: once, or for a frequent schedule in a
// repeated hour twice.
func (z zoned) instants(local time.Time) []time.Time {
	first, second, gap := z.resolve(local)
	switch {
	case gap:
		return []time.Time{z.afterGap(first)}
	case second.IsZero() || !z.frequent(second, second.Sub(first)):
		return []time.Time{first}
	}
	return []time.Time{first, second}
}

// resolve returns the instants at which the zone's clock shows the local time. If it never does,
// gap is set and first is near.
func (z zoned) resolve(local time.Time) (first, second time.Time, gap bool) {
	_, before := local.Add(-24 * time.Hour).In(z.zone).Zone()
	_, after := local.Add(24 * time.Hour).In(z.zone).Zone()
	for _, offset := range []int{max(before, after), min(before, after)} { // the greater offset is the earlier instant
		at := local.Add(-time.Duration(offset) * time.Second)
		if !wallClock(at.In(z.zone)).Equal(local) || at.Equal(first) {
			continue
		}
		if first.IsZero() {
			first = at
		} else {
			second = at
		}
	}
	if first.IsZero() {
		return local.Add(-time.Duration(before) * time.Second), time.Time{}, true
	}
	return first, second, false
}

// afterGap returns the first instant of the offset that holds at an instant just after the clocks
// were set forward.
func (z zoned) afterGap(near time.Time) time.Time {
	start, _ := near.In(z.zone).ZoneBounds()
	return start
}

// frequent reports whether the schedule comes within every shift: before, in and after the span of
// local time whose repetition the instant is in. It asks for the span as a whole, so that all its
// times of day come twice or none.
func (z zoned) frequent(second time.Time, shift time.Duration) bool {
	turn, _ := second.In(z.zone).ZoneBounds()
	span := wallClock(turn.In(z.zone))
	for _, from := range []time.Time{span.Add(-shift), span, span.Add(shift)} {
		at := z.schedule.Next(from.Add(-1))
		if at.IsZero() || !at.Before(from.Add(shift)) {
			return false
		}
	}
	return true
}

package schedule

import "time"

// InZone returns a schedule that means the local time of a zone, made of one that knows nothing of
// zones. It asks that one in UTC, and takes the hours and minutes of its answers for local ones.
// Give it a cron expression that was parsed without a time zone.
//
// It decides what cron libraries disagree about, the days when the clocks change. A time of day
// that is skipped comes at the first instant after the gap, once. A time of day that is repeated
// comes once, the first time. But a schedule that comes at least as often as the clocks are set
// back by, as every hour for most zones, goes on through both passes.
//
// Next answers in UTC, as precisely as the schedule does. If the schedule fails to advance, and
// answers a time that is not after the one it was given, so does Next: it returns the instant that
// it was given. If the schedule or the zone is nil, Next returns the zero time. Both are refused
// with ErrSchedule: a job must not run at other times than meant.
func InZone(s Schedule, zone *time.Location) Schedule { return zoned{s, zone} }

type zoned struct {
	schedule Schedule
	zone     *time.Location
}

func (z zoned) Next(after time.Time) time.Time {
	if z.schedule == nil || z.zone == nil {
		return time.Time{}
	}
	after = after.UTC()
	at, ok := z.next(after)
	if !ok {
		return after
	}
	return at
}

// next returns false if the schedule does not advance.
//
// Local times are written as times in UTC here. The schedule is asked for the first one after what
// the clock shows, which nearly always is the answer. If that is beyond the period's end, it still
// is, unless the clock is set back there: then the schedule is asked for what comes again.
func (z zoned) next(after time.Time) (at time.Time, ok bool) {
	p := z.periodOf(after)
	local, ok := z.first(p, p.clock(after))
	if far := p.instant(local).Add(-2 * maxShift); ok && far.After(after) {
		p = z.periodOf(far) // nothing comes before, and there may be very many periods
	}
	for range maxPeriods {
		if !ok || local.IsZero() {
			return local, ok
		}
		if at := p.instant(local); p.end.IsZero() || at.Before(p.end) {
			return at, true
		}
		p = z.following(p)
		if start := p.clock(p.start); start.Before(p.shown) {
			local, ok = z.first(p, start.Add(-1))
		}
	}
	return after, false // the schedule contradicts itself
}

const (
	// maxShift is more than any zone has set its clocks by at once: a day, to cross the date line.
	maxShift = 48 * time.Hour

	// maxPeriods is more than any zone has within the few maxShift that are looked at.
	maxPeriods = 100
)

// first returns the first local time after the given one that comes in the period or later, and not
// only in an earlier pass. The zero time and false mean what they mean in ask.
func (z zoned) first(p period, after time.Time) (local time.Time, ok bool) {
	local, ok = z.ask(after)
	if !ok || local.IsZero() || !local.Before(p.shown) || z.frequent(p) {
		return local, ok
	}
	return z.ask(p.shown.Add(-1))
}

// ask returns the first local time after the given one, or the zero time if there is none. It
// returns false if the schedule does not advance.
func (z zoned) ask(after time.Time) (local time.Time, ok bool) {
	local = z.schedule.Next(after)
	if local.IsZero() {
		return time.Time{}, true
	}
	local = local.UTC()
	return local, local.After(after)
}

// frequent reports whether the schedule comes within every shift: before and after the span of
// local time that the period begins to repeat, as it does in it. It does not ask from where it
// stands, so that all times of day of the span come twice or none.
func (z zoned) frequent(p period) bool {
	span := p.clock(p.start)
	shift := p.shown.Sub(span)
	for _, from := range []time.Time{span.Add(-shift), p.shown} {
		local, ok := z.ask(from.Add(-1))
		if !ok || local.IsZero() || !local.Before(from.Add(shift)) {
			return false
		}
	}
	return true
}

// A period is a span of time in which the zone's clock is not changed.
type period struct {
	start  time.Time
	end    time.Time // zero if there is none
	offset time.Duration
	shown  time.Time // all earlier local times came before the period
}

// clock returns the local time that the clock shows at an instant of the period.
func (p period) clock(at time.Time) time.Time { return at.Add(p.offset) }

// instant returns when a local time comes that was not dealt with before the period. What was
// skipped at the period's start comes then. It may be the period's end or later, and is wrong in
// that case.
func (p period) instant(local time.Time) time.Time {
	if at := local.Add(-p.offset); at.After(p.start) {
		return at
	}
	return p.start
}

// periodOf returns the period that an instant is in. It begins well before, to learn what the clock
// has shown.
func (z zoned) periodOf(at time.Time) period {
	p := z.period(at.Add(-maxShift))
	p.shown = p.clock(p.start)
	for range maxPeriods {
		if p.end.IsZero() || p.end.After(at) {
			break
		}
		p = z.following(p)
	}
	return p
}

// following returns the period that begins where one ends. Its offset may be the same.
func (z zoned) following(p period) period {
	next := z.period(p.end)
	next.shown = p.shown
	if last := p.clock(p.end); last.After(next.shown) {
		next.shown = last
	}
	return next
}

// period returns the rest of a period from an instant of it on.
func (z zoned) period(start time.Time) period {
	here := start.In(z.zone)
	_, offset := here.Zone()
	_, end := here.ZoneBounds()
	if !end.IsZero() && !end.After(start) {
		// After the last change that a zone's file lists, Go lets leap years end a day too early.
		const day = 24 * time.Hour
		end = start.Truncate(day).Add(day)
	}
	return period{start: start, end: end.UTC(), offset: time.Duration(offset) * time.Second}
}

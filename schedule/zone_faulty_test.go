package schedule

import (
	"testing"
	"time"
)

func TestInZoneOfAScheduleThatDoesNotAdvanceDoesNotEither(t *testing.T) {
	t.Parallel()
	zone := berlin(t)
	for name, faulty := range map[string]scheduleFunc{
		"stands still":  func(after time.Time) time.Time { return after },
		"goes back":     func(after time.Time) time.Time { return after.Add(-time.Hour) },
		"goes far back": func(time.Time) time.Time { return time.Unix(0, 0) },
		"truncates":     func(after time.Time) time.Time { return after.Truncate(time.Minute) },
	} {
		for where, after := range nearChanges() {
			schedule, _ := counted(t, faulty)
			if next := InZone(schedule, zone).Next(after); !next.Equal(after) {
				t.Errorf("%s %s: after %v comes %v, want what it was given", name, where, after, next)
			}
		}
	}
}

// A schedule may fail to advance only where InZone asks once more, and may contradict itself.
func TestInZoneOfAScheduleThatContradictsItselfEnds(t *testing.T) {
	t.Parallel()
	zone := berlin(t)
	for name, faulty := range map[string]func(asked int, after time.Time) time.Time{
		"stands still in the end": func(asked int, after time.Time) time.Time {
			if asked > 1 {
				return after
			}
			return after.Add(time.Hour)
		},
		"leaps ahead": func(asked int, after time.Time) time.Time {
			return after.Add(time.Duration(asked) * 1000 * time.Hour)
		},
		"seems frequent, and leaps ahead": func(asked int, after time.Time) time.Time {
			if asked%4 != 0 {
				return after.Add(time.Second)
			}
			return after.Add(50 * 365 * 24 * time.Hour)
		},
		"crosses a change, and leaps ahead": func(asked int, after time.Time) time.Time {
			if asked == 1 {
				return after.Add(2 * time.Hour)
			}
			return after.Add(10 * 365 * 24 * time.Hour)
		},
		"names an instant": func(int, time.Time) time.Time {
			return time.Date(2026, 10, 25, 2, 30, 0, 0, time.UTC)
		},
		"leaps to the end of time": func(int, time.Time) time.Time { return time.Unix(1<<60, 0) },
	} {
		for where, after := range nearChanges() {
			asked := 0
			schedule, _ := counted(t, scheduleFunc(func(after time.Time) time.Time {
				asked++
				return faulty(asked, after)
			}))
			if next := InZone(schedule, zone).Next(after); next.Before(after) {
				t.Errorf("%s %s: after %v comes %v, which is before", name, where, after, next)
			}
		}
	}
}

func TestInZoneOfNothingNeverComes(t *testing.T) {
	t.Parallel()
	for name, schedule := range map[string]Schedule{
		"no schedule": InZone(nil, time.UTC),
		"no zone":     InZone(pattern{every: 60}, nil),
	} {
		if next := schedule.Next(time.Now()); !next.IsZero() {
			t.Errorf("%s: it comes at %v, want the zero time", name, next)
		}
	}
}

func TestInZoneOfAScheduleThatEnds(t *testing.T) {
	t.Parallel()
	zone := berlin(t)
	for name, tt := range map[string]struct{ last, comes time.Time }{
		"on a plain day": {
			time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC), time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC),
		},
		"in a gap": {
			time.Date(2026, 3, 29, 2, 30, 0, 0, time.UTC), time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC),
		},
		"in a repeated hour": {
			time.Date(2026, 10, 25, 2, 30, 0, 0, time.UTC), time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC),
		},
		"in a thousand years": {
			time.Date(3026, 1, 1, 12, 0, 0, 0, time.UTC), time.Date(3026, 1, 1, 11, 0, 0, 0, time.UTC),
		},
	} {
		ends, asked := counted(t, scheduleFunc(func(after time.Time) time.Time {
			if after.Before(tt.last) {
				return tt.last
			}
			return time.Time{}
		}))
		schedule := InZone(ends, zone)
		for _, early := range []time.Duration{
			1, time.Second, time.Hour, 30 * time.Hour, 400 * 24 * time.Hour, 100 * 365 * 24 * time.Hour,
		} {
			*asked = 0
			if next := schedule.Next(tt.comes.Add(-early)); !next.Equal(tt.comes) {
				t.Errorf("%s, asked %v before: it comes at %v, want %v", name, early, next, tt.comes)
			}
		}
		for _, late := range []time.Duration{0, time.Second, time.Hour, 30 * time.Hour} {
			if next := schedule.Next(tt.comes.Add(late)); !next.IsZero() {
				t.Errorf("%s, asked %v after: it comes at %v, want the zero time", name, late, next)
			}
		}
	}
}

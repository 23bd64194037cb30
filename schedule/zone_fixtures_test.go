package schedule

import (
	"testing"
	"time"
)

// nearChanges are instants far from a change of the clocks in Berlin, and on each side of both
// kinds.
func nearChanges() map[string]time.Time {
	return map[string]time.Time{
		"far from a change": time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC),
		"before the gap":    time.Date(2026, 3, 29, 0, 59, 59, 0, time.UTC),
		"after the gap":     time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC),
		"in a first pass":   time.Date(2026, 10, 25, 0, 59, 59, 0, time.UTC),
		"in a second pass":  time.Date(2026, 10, 25, 1, 30, 0, 0, time.UTC),
		"at the last day of a leap year beyond the listed changes": time.Date(
			2040, 12, 31, 12, 0, 0, 0, time.UTC),
	}
}

func berlin(t testing.TB) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// counted counts how often the schedule is asked, and fails the test at a thousand times. Without
// that an endless loop would not end.
func counted(t testing.TB, s Schedule) (schedule Schedule, asked *int) {
	t.Helper()
	asked = new(int)
	return scheduleFunc(func(after time.Time) time.Time {
		if *asked++; *asked > 1000 {
			t.Fatal("the schedule was asked a thousand times for one instant")
		}
		return s.Next(after)
	}), asked
}

// scheduleFunc is a schedule made of its Next.
type scheduleFunc func(time.Time) time.Time

func (f scheduleFunc) Next(after time.Time) time.Time { return f(after) }

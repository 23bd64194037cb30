package schedule

import (
	"testing"
	"time"
)

// What a schedule costs is how often it is asked; see the benchmarks for the rest.
func TestInZoneAsksTheScheduleAFewTimes(t *testing.T) {
	t.Parallel()
	zone := berlin(t)
	for name, p := range map[string]pattern{
		"every second":        {every: 1},
		"every minute":        {every: 60},
		"every hour":          {every: 3600},
		"a repeated time":     {times: []int64{2*3600 + 30*60}},
		"a weekly time":       {times: []int64{12 * 3600}, weekday: 1},
		"two times, one late": {times: []int64{2*3600 + 59*60, 3 * 3600}},
	} {
		for where, from := range nearChanges() {
			s, asked := counted(t, p)
			schedule := InZone(s, zone)
			for late := -2 * time.Hour; late < 2*time.Hour; late += 7 * time.Second {
				*asked = 0
				at := from.Add(late)
				schedule.Next(at)
				if *asked > 5 {
					t.Fatalf("%s %s: asked %d times for what comes after %v", name, where, *asked, at)
				}
			}
		}
	}
}

func TestInZoneAsksAndAnswersInUTC(t *testing.T) {
	t.Parallel()
	zone, tokyo := berlin(t), time.FixedZone("", 9*3600)
	ahead := scheduleFunc(func(after time.Time) time.Time {
		if after != after.UTC() { // which also is without the monotonic clock
			t.Errorf("it was asked for %v, want that in UTC and without the monotonic clock", after)
		}
		return pattern{every: 1800}.Next(after).In(tokyo)
	})
	instants := nearChanges()
	instants["now"] = time.Now()
	for where, after := range instants {
		want := InZone(pattern{every: 1800}, zone).Next(after)
		if got := InZone(ahead, zone).Next(after.In(tokyo)); got != want {
			t.Errorf("%s: after %v comes %v, want %v", where, after, got, want)
		}
	}
}

func TestInZoneKeepsFractionsOfAMicrosecond(t *testing.T) {
	t.Parallel()
	zone := berlin(t)
	const odd = 700 * time.Nanosecond
	fine := scheduleFunc(func(after time.Time) time.Time { return after.Truncate(odd).Add(odd) })
	for where, from := range nearChanges() {
		schedule := InZone(fine, zone)
		at := from.Add(-2 * odd)
		for range 5 {
			next := schedule.Next(at)
			if step := next.Sub(at); step <= 0 || step > odd {
				t.Errorf("%s: after %v comes %v", where, at, next)
			}
			at = next
		}
	}
}

// In 1969 Kwajalein crossed the date line, and its clocks showed all but an hour of a day once
// more.
func TestInZoneOfADayThatIsRepeated(t *testing.T) {
	t.Parallel()
	zone, err := time.LoadLocation("Pacific/Kwajalein")
	if err != nil {
		t.Fatal(err)
	}
	change := time.Date(1969, 9, 30, 13, 0, 0, 0, time.UTC)
	hourly := InZone(pattern{every: 3600}, zone)
	weekly := InZone(pattern{times: []int64{12 * 3600}, weekday: 2}, zone) // that day, a Tuesday
	noon := change.Add(-12 * time.Hour)
	for hours := -30; hours < 30; hours++ {
		at := change.Add(time.Duration(hours) * time.Hour)
		if next := hourly.Next(at); !next.Equal(at.Add(time.Hour)) {
			t.Errorf("every hour, after %v: %v", at, next)
		}
		want := noon
		if !at.Before(noon) {
			want = noon.Add(7*24*time.Hour + 23*time.Hour)
		}
		if next := weekly.Next(at); !next.Equal(want) {
			t.Errorf("every Tuesday at noon, after %v: %v, want %v", at, next, want)
		}
	}
}

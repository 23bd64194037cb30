package schedule

import (
	"slices"
	"testing"
	"time"
	_ "time/tzdata" // the test must not depend on the machine's zones

	cron "github.com/netresearch/go-cron"
)

func TestInZoneDecidesTheDaysWhenClocksChange(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, spec, zone, from, to string
		want                       []string
	}{
		{
			"skipped time of day", "0 2 * * *", "America/New_York", "2026-03-07 12:00", "2026-03-08 12:00",
			[]string{"03:00 EDT"},
		},
		{
			"skipped, in the middle", "30 2 * * *", "America/New_York",
			"2026-03-07 12:00", "2026-03-08 12:00",
			[]string{"03:00 EDT"},
		},
		{
			"day after a skip", "30 2 * * *", "America/New_York", "2026-03-08 12:00", "2026-03-09 12:00",
			[]string{"02:30 EDT"},
		},
		{
			"hourly through a gap", "0 * * * *", "America/New_York", "2026-03-07 23:30", "2026-03-08 04:30",
			[]string{"00:00 EST", "01:00 EST", "03:00 EDT", "04:00 EDT"},
		},
		{
			"quarters through a gap", "*/15 * * * *", "America/New_York",
			"2026-03-08 01:25", "2026-03-08 03:20",
			[]string{"01:30 EST", "01:45 EST", "03:00 EDT", "03:15 EDT"},
		},
		{
			"repeated time of day", "30 1 * * *", "America/New_York", "2026-10-31 12:00", "2026-11-01 12:00",
			[]string{"01:30 EDT"},
		},
		{
			"two times of day, one repeated", "0 1,2 * * *", "America/New_York",
			"2026-10-31 12:00", "2026-11-01 12:00",
			[]string{"01:00 EDT", "02:00 EST"},
		},
		{
			"hourly through a repeat", "0 * * * *", "America/New_York",
			"2026-10-31 23:30", "2026-11-01 03:30",
			[]string{"00:00 EDT", "01:00 EDT", "01:00 EST", "02:00 EST", "03:00 EST"},
		},
		{
			"half-hourly through a repeat", "*/30 * * * *", "America/New_York",
			"2026-11-01 00:45", "2026-11-01 02:10",
			[]string{"01:00 EDT", "01:30 EDT", "01:00 EST", "01:30 EST", "02:00 EST"},
		},
		{
			"often, in the repeated hour only", "*/20 1 * * *", "America/New_York",
			"2026-10-31 12:00", "2026-11-01 12:00",
			[]string{"01:00 EDT", "01:20 EDT", "01:40 EDT"},
		},
		{
			"often, until the end of the repeated hour", "*/30 0-1 * * *", "America/New_York",
			"2026-10-31 12:00", "2026-11-01 12:00",
			[]string{"00:00 EDT", "00:30 EDT", "01:00 EDT", "01:30 EDT"},
		},
		{
			"every ten minutes through a repeat of half an hour", "*/10 * * * *", "Australia/Lord_Howe",
			"2026-04-05 01:25", "2026-04-05 02:10",
			[]string{
				"01:30 +11", "01:40 +11", "01:50 +11",
				"01:30 +1030", "01:40 +1030", "01:50 +1030", "02:00 +1030", "02:10 +1030",
			},
		},
		{
			"after a repeat", "0 2 * * *", "America/New_York", "2026-10-31 12:00", "2026-11-01 12:00",
			[]string{"02:00 EST"},
		},
		{
			"skipped midnight", "0 0 * * *", "America/Santiago", "2026-09-05 12:00", "2026-09-06 12:00",
			[]string{"01:00 -03"},
		},
		{
			"repeated hour before midnight", "30 23 * * *", "America/Santiago",
			"2026-04-04 12:00", "2026-04-05 12:00",
			[]string{"23:30 -03"},
		},
		{
			"southern spring", "0 2 * * *", "Australia/Sydney", "2026-10-03 12:00", "2026-10-04 12:00",
			[]string{"03:00 AEDT"},
		},
		{
			"southern autumn", "30 2 * * *", "Australia/Sydney", "2026-04-04 12:00", "2026-04-05 12:00",
			[]string{"02:30 AEDT"},
		},
		{
			"shift of half an hour", "15 2 * * *", "Australia/Lord_Howe",
			"2026-10-03 12:00", "2026-10-04 12:00",
			[]string{"02:30 +11"},
		},
		{
			"first of a month", "0 0 1 * *", "America/New_York", "2026-10-15 12:00", "2026-12-15 12:00",
			[]string{"00:00 EDT", "00:00 EST"},
		},
		{
			"no change of clocks", "0 2 * * *", "Asia/Tokyo", "2026-03-07 12:00", "2026-03-09 12:00",
			[]string{"02:00 JST", "02:00 JST"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			zone, err := time.LoadLocation(tt.zone)
			if err != nil {
				t.Fatal(err)
			}
			spec, err := cron.ParseStandard(tt.spec)
			if err != nil {
				t.Fatal(err)
			}
			instant := func(text string) time.Time {
				at, err := time.ParseInLocation("2006-01-02 15:04", text, zone)
				if err != nil {
					t.Fatal(err)
				}
				return at
			}
			from, to := instant(tt.from), instant(tt.to)
			schedule := InZone(spec, zone)
			var got []string
			for at := schedule.Next(from); !at.After(to) && len(got) < 20; at = schedule.Next(at) {
				got = append(got, at.In(zone).Format("15:04 MST"))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%s in %s from %s to %s came at %q, want %q",
					tt.spec, tt.zone, tt.from, tt.to, got, tt.want)
			}
		})
	}
}

// The first instant after any given one does not depend on where the search begins.
func TestInZoneIsMonotonic(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"America/New_York", "America/Santiago", "Australia/Lord_Howe"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{
			"0 2 * * *", "30 1 * * *", "0 * * * *", "*/20 * * * *", "0 0 * * *", "15 2,14 * * 0",
		} {
			spec, err := cron.ParseStandard(text)
			if err != nil {
				t.Fatal(err)
			}
			schedule := InZone(spec, zone)
			at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			next := schedule.Next(at)
			for range 366 * 24 * 2 {
				at = at.Add(30 * time.Minute)
				for !next.After(at) {
					last := next
					if next = schedule.Next(last); !next.After(last) {
						t.Fatalf("%s in %s: next after %v is %v", text, name, last.In(zone), next.In(zone))
					}
				}
				if got := schedule.Next(at); !got.Equal(next) {
					t.Fatalf("%s in %s: next after %v is %v, and %v when followed from the start",
						text, name, at, got.In(zone), next.In(zone))
				}
			}
		}
	}
}

func TestInZoneOfAScheduleThatNeverComesIsZero(t *testing.T) {
	t.Parallel()
	zone, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	never := scheduleFunc(func(time.Time) time.Time { return time.Time{} })
	for _, at := range []string{
		"2026-01-01T00:00:00Z", "2026-03-08T06:30:00Z", "2026-11-01T05:30:00Z",
	} {
		after, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		if next := InZone(never, zone).Next(after); !next.IsZero() {
			t.Errorf("after %s: %v, want the zero time", at, next)
		}
	}
}

package timetable

import (
	"testing"
	"time"
)

// A schedule that is taken comes, and goes on coming.
func FuzzParse(f *testing.F) {
	for _, seed := range [][2]string{
		{"0 2 * * *", "Europe/Paris"},
		{"*/5 * * * * *", ""},
		{"0 2 30 2 *", "UTC"},
		{"@daily", "America/New_York"},
		{"@every 1s", "UTC"},
		{"TZ=UTC 0 2 * * *", "UTC"},
		{"0 2 * * *", "Local"},
		{"0 0 L * *", "Australia/Lord_Howe"},
		{"0 2 29 2 */7", "Africa/Casablanca"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, fields, zone string) {
		location, err := ParseZone(zone)
		if err != nil {
			return
		}
		schedule, err := Parse(fields, location)
		if err != nil {
			return
		}
		at := time.Date(2026, 3, 7, 0, 0, 0, 0, time.UTC)
		for range 5 {
			next := schedule.Next(at)
			if next.IsZero() {
				return
			}
			if !next.After(at) {
				t.Fatalf("schedule %q in %q: after %v comes %v", fields, zone, at, next)
			}
			at = next
		}
	})
}

func FuzzParseInstant(f *testing.F) {
	for _, text := range []string{
		"2026-11-29T02:00:00Z", "2026-11-29T03:00:00.5+01:00", "tomorrow", "9999-12-31T23:59:60Z", "",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		at, err := ParseInstant(text)
		if err != nil {
			return
		}
		again, err := ParseInstant(at.Format(time.RFC3339Nano))
		if err == nil && !again.Equal(at) {
			t.Errorf("%q is %v, and printed and read again %v", text, at, again)
		}
	})
}

package main

import (
	"slices"
	"testing"
	"time"
)

// A schedule that is taken comes, and goes on coming.
func FuzzParseSchedule(f *testing.F) {
	for _, seed := range [][2]string{
		{"0 2 * * *", "Europe/Paris"},
		{"*/5 * * * * *", ""},
		{"0 2 30 2 *", "UTC"},
		{"@daily", "America/New_York"},
		{"@every 1s", ""},
		{"TZ=UTC 0 2 * * *", ""},
		{"0 2 * * *", "Local"},
		{"0 0 L * *", "Australia/Lord_Howe"},
		{"0 2 29 2 */7", "Africa/Casablanca"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, spec, zone string) {
		schedule, _, err := parseSchedule(spec, zone)
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
				t.Fatalf("schedule %q in %q: after %v comes %v", spec, zone, at, next)
			}
			at = next
		}
	})
}

func FuzzParseSlot(f *testing.F) {
	for _, text := range []string{"2026-11-29T02:00:00Z", "2026-11-29T03:00:00.5+01:00", "tomorrow", "9999-12-31T23:59:60Z"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		at, err := parseSlot(text)
		if err != nil {
			return
		}
		if again, err := parseSlot(at.Format(time.RFC3339Nano)); err == nil && !again.Equal(at) {
			t.Errorf("%q is %v, and printed and read again %v", text, at, again)
		}
	})
}

// A file that is taken has jobs, each with a command and a schedule.
func FuzzParseCronFile(f *testing.F) {
	for _, text := range []string{
		"jobs:\n  a: {schedule: '0 2 * * *', command: [x]}\n", "jobs: {a: null}", "jobs: [1]", "{", "a: &x [*x]",
		"time_zone: Europe/Paris\njobs:\n  b:\n    schedule: '@daily'\n    command: echo\n    grace: -1s\n", "---\njobs: {}\n---\n",
		"jobs:\n  ? [a]\n  : {schedule: '* * * * *', command: ''}\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := parseCronFile(text)
		if err != nil {
			return
		}
		for name, j := range file.Jobs {
			if len(j.Command) == 0 || j.schedule == nil || j.location == nil || slices.Contains([]string{"", "\x00"}, name) {
				t.Errorf("job %q is %+v", name, j)
			}
		}
	})
}

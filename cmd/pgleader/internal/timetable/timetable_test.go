package timetable

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pgleader/pgleader/schedule"
)

func TestNewestSlotThatHasComeIsFoundHoweverRareTheyAre(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 23, 30, 0, 0, time.UTC)
	for fields, want := range map[string]time.Time{
		"* * * * * *":     now,
		"*/10 * * * *":    now,
		"25 * * * *":      now.Add(-5 * time.Minute),
		"0 2 * * *":       time.Date(2026, 11, 29, 2, 0, 0, 0, time.UTC),
		"40 23 * * *":     time.Date(2026, 11, 28, 23, 40, 0, 0, time.UTC),
		"40 23 * * 1,4,5": time.Date(2026, 11, 27, 23, 40, 0, 0, time.UTC),
		"0 2 1 1 *":       {},
	} {
		if got := mustParse(t, fields, DefaultZone).Newest(now); !got.Equal(want) {
			t.Errorf("%s: %v, want %v", fields, got, want)
		}
	}
}

func TestWhatCannotBeMeantIsRefused(t *testing.T) {
	t.Parallel()
	for fields, want := range map[string]string{
		"":                 "the schedule is empty",
		" \t":              "the schedule is empty",
		"0 2 * *":          `schedule "0 2 * *": `,
		"0 2 30 2 *":       `schedule "0 2 30 2 *" never comes`,
		"TZ=UTC 0 2 * * *": "names a time zone",
		"@every 1s":        "no times of its own",
	} {
		if _, err := Parse(fields, time.UTC); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", fields, err, want)
		}
	}
	for name, want := range map[string]string{
		"":             "the time zone is empty",
		"Local":        "means another one on every host",
		"Mars/Olympus": `unknown time zone "Mars/Olympus"`,
	} {
		if _, err := ParseZone(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
	for _, text := range []string{"", "tomorrow", "2026-11-29", "2026-11-29T02:00:00"} {
		if at, err := ParseInstant(text); err == nil {
			t.Errorf("%q is %v", text, at)
		}
	}
}

func TestSchedulesAreTheSameIfWrittenTheSame(t *testing.T) {
	t.Parallel()
	night := mustParse(t, "0 2 * * *", "Europe/Paris")
	if !night.Same(mustParse(t, "0 2 * * *", "Europe/Paris")) {
		t.Error("one that was read again is another one")
	}
	if night.Same(mustParse(t, "0 2 * * *", "UTC")) {
		t.Error("one in another zone is the same")
	}
	if night.Same(mustParse(t, "0 3 * * *", "Europe/Paris")) {
		t.Error("one with other fields is the same")
	}
}

func TestPolicyHonoursOrRefusesEveryValue(t *testing.T) {
	t.Parallel()
	if err := CheckPolicy(DefaultPolicy()); err != nil {
		t.Error(err)
	}
	for _, row := range []struct {
		change func(*schedule.Policy)
		want   string // "" if it is honoured
	}{
		{func(p *schedule.Policy) { p.Grace = 0 }, "grace is 0s, want at least 1ms"},
		{func(p *schedule.Policy) { p.Grace = -time.Second }, "grace is -1s, want at least 1ms"},
		{func(p *schedule.Policy) { p.Grace = time.Millisecond }, ""},
		{func(p *schedule.Policy) { p.Attempts = 0 }, "attempts is 0, want 1 to 1000"},
		{func(p *schedule.Policy) { p.Attempts = -1 }, "attempts is -1, want 1 to 1000"},
		{func(p *schedule.Policy) { p.Attempts = 1 }, ""},
		{func(p *schedule.Policy) { p.Attempts = 1000 }, ""},
		{func(p *schedule.Policy) { p.Attempts = 1001 }, "attempts is 1001, want 1 to 1000"},
		{func(p *schedule.Policy) { p.Keep = 0 }, "keep is 0s, want at least 1m0s"},
		{func(p *schedule.Policy) { p.Keep = -1 }, "keep is -1ns, want at least 1m0s"},
		{func(p *schedule.Policy) { p.CatchUp = "" }, `catch_up is "", want "latest", "all" or "skip"`},
		{func(p *schedule.Policy) { p.CatchUp = "Some" }, `catch_up is "Some", want "latest"`},
		{func(p *schedule.Policy) { p.CatchUp = schedule.CatchUpSkip }, ""},
		{func(p *schedule.Policy) { p.RepeatFailed = true }, ""},
	} {
		p := DefaultPolicy()
		row.change(&p)
		err := CheckPolicy(p)
		var field *FieldError
		switch {
		case row.want == "":
			if err != nil || p.Validate() != nil {
				t.Errorf("%+v: %v, and the library says %v", p, err, p.Validate())
			}
		case !errors.As(err, &field) || !strings.HasPrefix(err.Error(), row.want):
			t.Errorf("%+v: %v, want %s", p, err, row.want)
		}
	}
}

func mustParse(t *testing.T, fields, zone string) *Schedule {
	t.Helper()
	location, err := ParseZone(zone)
	if err != nil {
		t.Fatal(err)
	}
	schedule, err := Parse(fields, location)
	if err != nil {
		t.Fatal(err)
	}
	return schedule
}

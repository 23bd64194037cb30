package timetable

import (
	"slices"
	"testing"
	"time"
)

func TestSlotsThatAClockChangeTouchesAreMarked(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		fields, zone, after string
		want                []string // local time and note
	}{
		"twice": {"30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z", []string{
			"Sun 2026-11-01 01:30:00 EDT", "the clocks show this twice: run the first time only",
			"Mon 2026-11-02 01:30:00 EST", "",
		}},
		"skipped": {"30 2 * * *", "America/New_York", "2026-03-07T12:00:00Z", []string{
			"Sun 2026-03-08 03:00:00 EDT", "moved: the clocks skip from 02:00 to 03:00",
			"Mon 2026-03-09 02:30:00 EDT", "",
		}},
		"meant, and not moved": {"0 3 * * *", "America/New_York", "2026-03-07T12:00:00Z", []string{
			"Sun 2026-03-08 03:00:00 EDT", "",
		}},
		"hourly": {"0 * * * *", "America/New_York", "2026-11-01T04:30:00Z", []string{
			"Sun 2026-11-01 01:00:00 EDT", "the first time that the clocks show this",
			"Sun 2026-11-01 01:00:00 EST", "the second time that the clocks show this",
			"Sun 2026-11-01 02:00:00 EST", "",
		}},
	} {
		schedule := mustParse(t, row.fields, row.zone)
		after, err := ParseInstant(row.after)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range Next(map[string]*Schedule{"": schedule}, after, len(row.want)/2) {
			got = append(got, c.Local, c.Note)
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: got  %q\nwant %q", name, got, row.want)
		}
	}
}

func TestSlotsOfAllJobsComeByTime(t *testing.T) {
	t.Parallel()
	jobs := make(map[string]*Schedule)
	for name, fields := range map[string]string{
		"b": "0 * * * *", "a": "0 */2 * * *", "c": "30 1 * * *",
	} {
		jobs[name] = mustParse(t, fields, DefaultZone)
	}
	var got []string
	for _, c := range Next(jobs, time.Date(2026, 11, 29, 0, 30, 0, 0, time.UTC), 5) {
		got = append(got, c.Job+c.Slot.Format(" 15:04"))
	}
	want := []string{"b 01:00", "c 01:30", "a 02:00", "b 02:00", "b 03:00"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

package main

import (
	"testing"
	"time"
)

func TestNewestSlotThatHasComeIsFoundHoweverRareTheyAre(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 23, 30, 0, 0, time.UTC)
	for spec, want := range map[string]time.Time{
		"* * * * * *":     now,
		"*/10 * * * *":    now,
		"25 * * * *":      now.Add(-5 * time.Minute),
		"0 2 * * *":       time.Date(2026, 11, 29, 2, 0, 0, 0, time.UTC),
		"40 23 * * *":     time.Date(2026, 11, 28, 23, 40, 0, 0, time.UTC),
		"40 23 * * 1,4,5": time.Date(2026, 11, 27, 23, 40, 0, 0, time.UTC),
		"0 2 1 1 *":       {},
	} {
		schedule, _, err := parseSchedule(spec, "")
		if err != nil {
			t.Fatal(err)
		}
		if got := newest(schedule, now); !got.Equal(want) {
			t.Errorf("%s: %v, want %v", spec, got, want)
		}
	}
}

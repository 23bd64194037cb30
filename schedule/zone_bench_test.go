package schedule

import (
	"testing"
	"time"
)

// Both plan hours of a schedule that comes every second, a step an operation. Near a change of the
// clocks a step may cost little more than away from it.

func BenchmarkInZoneAwayFromAClockChange(b *testing.B) {
	benchmarkInZone(b, time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC))
}

func BenchmarkInZoneNearAClockChange(b *testing.B) {
	for _, bb := range []struct {
		name string
		from time.Time
	}{
		{"before the gap", time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC)},
		{"after the gap", time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC)},
		{"in the first pass", time.Date(2026, 10, 25, 0, 0, 0, 0, time.UTC)},
		{"in the second pass", time.Date(2026, 10, 25, 1, 0, 0, 0, time.UTC)},
		{"after both", time.Date(2026, 10, 25, 2, 0, 0, 0, time.UTC)},
	} {
		b.Run(bb.name, func(b *testing.B) { benchmarkInZone(b, bb.from) })
	}
}

// benchmarkInZone steps through an hour, again and again.
func benchmarkInZone(b *testing.B, from time.Time) {
	b.Helper()
	schedule := InZone(pattern{every: 1}, berlin(b))
	until := from.Add(time.Hour)
	at := from
	for b.Loop() {
		if at = schedule.Next(at); !at.Before(until) {
			at = from
		}
	}
}

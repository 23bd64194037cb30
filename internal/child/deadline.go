package child

import "time"

// A deadline has passed when either clock says so.
type deadline struct{ mono, wall time.Time }

// newDeadline takes a time with a monotonic reading.
func newDeadline(t time.Time) deadline { return deadline{t, t.Round(0)} }

func (d deadline) remaining() time.Duration {
	now := time.Now()
	// The bound leaves room to add a grace.
	return min(d.mono.Sub(now), d.wall.Sub(now.Round(0)), 100*365*24*time.Hour)
}

// wallCheck is how often the wall clock is compared, which no timer follows.
const wallCheck = 250 * time.Millisecond

package leader

import (
	"log/slog"
	"time"

	"github.com/pgleader/pgleader/internal/pgcall"
)

// A core is what all parts of an elector share: who it is, its durations, and how it asks the
// database, reads the clocks and reports.
type core struct {
	timing
	holder  string
	calls   *pgcall.Caller
	log     *slog.Logger
	onEvent func(Event) // or nil

	// wall is the wall clock, which a suspended machine leaves behind the monotonic one; replaced in
	// tests.
	wall func() time.Time
}

// nudge sends without waiting: one message that was not read yet is enough.
func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

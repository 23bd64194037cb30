package leader

import (
	"context"
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

	// wall reads the wall clock, which goes on while a suspended machine stops the monotonic one. It
	// is replaced in tests.
	wall func() time.Time
}

// emit logs an event and hands it to Config.OnEvent.
func (c *core) emit(event Event) {
	if level := event.level(); c.log.Enabled(context.Background(), level) {
		c.log.LogAttrs(context.Background(), level, event.message(), event.attrs()...)
	}
	if c.onEvent != nil {
		c.onEvent(event)
	}
}

// nudge sends without waiting: one message that was not read yet is enough.
func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

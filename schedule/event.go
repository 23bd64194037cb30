package schedule

import (
	"context"
	"log/slog"
	"time"
)

// EventKind says what an Event reports.
type EventKind string

// The kinds of events. Every EventStarted is followed by exactly one EventFinished for the same
// job, slot and attempt, whatever happens to the term.
const (
	EventStarted   EventKind = "slot_started"    // work begins for Slot
	EventFinished  EventKind = "slot_finished"   // work has ended; State is what is on record, Err why
	EventGivenBack EventKind = "slot_given_back" // Slot was claimed, and its work never begun
	EventMissed    EventKind = "slots_missed"    // Count slots, up to Slot, were recorded so
	EventRetry     EventKind = "slot_retry"      // a statement failed, and will be tried again
)

// Event is one thing that happened to a job's slots in this process, for metrics: see
// Config.OnEvent.
type Event struct {
	Kind    EventKind
	Job     string
	Holder  string    // this process
	Token   int64     // the fencing token of its term, 0 if there is none
	Slot    time.Time // the slot, or the latest of them; zero for most of EventRetry
	Attempt int       // of the slot, 0 if there is none
	State   State     // for EventFinished; "" if the database could not be asked
	Count   int       // how many slots, for EventMissed
	Reason  string    // why they were missed, for EventMissed
	Err     error     // what work returned, or what failed; nil if nothing went wrong
}

// emit logs an event and hands it to Config.OnEvent.
func (s *Scheduler) emit(event Event) {
	event.Holder = s.elector.Holder()
	if level := event.level(); s.log.Enabled(context.Background(), level) {
		s.log.LogAttrs(context.Background(), level, event.message(), event.attrs()...)
	}
	if s.onEvent != nil {
		s.onEvent(event)
	}
}

func (event Event) level() slog.Level {
	switch event.Kind {
	case EventMissed, EventRetry:
		return slog.LevelWarn
	case EventFinished:
		if event.State != StateDone || event.Err != nil {
			return slog.LevelWarn
		}
	case EventStarted, EventGivenBack:
	}
	return slog.LevelInfo
}

func (event Event) attrs() []slog.Attr {
	attrs := []slog.Attr{slog.String("job", event.Job), slog.String("holder", event.Holder)}
	if event.Token != 0 {
		attrs = append(attrs, slog.Int64("token", event.Token))
	}
	if !event.Slot.IsZero() {
		attrs = append(attrs, slog.Time("slot", event.Slot))
	}
	if event.Attempt > 1 {
		attrs = append(attrs, slog.Int("attempt", event.Attempt))
	}
	if event.Count > 0 {
		attrs = append(attrs, slog.Int("count", event.Count), slog.String("reason", event.Reason))
	}
	if event.Err != nil {
		attrs = append(attrs, slog.Any("error", event.Err))
	}
	return attrs
}

func (event Event) message() string {
	switch event.Kind {
	case EventStarted:
		return "schedule: slot started"
	case EventFinished:
		if event.State == "" {
			return "schedule: slot ended, its record is not known"
		}
		return "schedule: slot " + string(event.State)
	case EventGivenBack:
		return "schedule: slot given back before its work began"
	case EventMissed:
		return "schedule: slots missed"
	case EventRetry:
		return "schedule: asking about slots failed, trying again"
	}
	return "schedule: " + string(event.Kind)
}

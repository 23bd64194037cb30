package leader

import (
	"log/slog"
	"time"
)

// EventKind says what an Event reports.
type EventKind string

// The kinds of events. Every EventElected is followed by exactly one EventLost or EventResigned for
// the same token.
const (
	EventElected      EventKind = "elected"        // this process leads the job
	EventLost         EventKind = "lost"           // a term ended against its holder's will
	EventResigned     EventKind = "resigned"       // a term was given up; Err: its release failed
	EventSkipped      EventKind = "skipped"        // TryAcquire or TryRun found Holder leading
	EventWaiting      EventKind = "waiting"        // Campaign or Run waits for Holder; once a term
	EventRenewFailed  EventKind = "renew_failed"   // a renewal failed and will be tried again
	EventLookFailed   EventKind = "look_failed"    // a look at leases failed, the first of a row
	EventClaimFailed  EventKind = "claim_failed"   // a candidate could not ask, and will try again
	EventResignFailed EventKind = "resign_failed"  // a release failed: the lease may outlive it
	EventClockSetBack EventKind = "clock_set_back" // Holder's lease, kept by a wrong clock, was freed
)

// Event is one thing that happened to a job in this process, for metrics: see Config.OnEvent. The
// end of one term and the beginning of the next may be reported in either order: for who leads now,
// believe the greatest token.
type Event struct {
	Kind   EventKind
	Job    string        // "" if it concerns several jobs: see Leases
	Leases int           // how many leases it concerns, for EventRenewFailed and EventLookFailed
	Holder string        // whose term or attempt it is: this process, or who leads instead
	Token  int64         // the fencing token of Holder's term, 0 if it is not known
	Left   time.Duration // how long Holder's lease lives unless renewed, where it is another process's
	Err    error         // nil if nothing went wrong

	repeated bool // the same was reported just before
}

func (event Event) level() slog.Level {
	switch event.Kind {
	case EventLost, EventRenewFailed, EventLookFailed, EventClaimFailed, EventResignFailed,
		EventClockSetBack:
		return slog.LevelWarn
	case EventElected, EventResigned, EventWaiting, EventSkipped:
		if event.repeated {
			return slog.LevelDebug
		}
	}
	return slog.LevelInfo
}

func (event Event) attrs() []slog.Attr {
	attrs := make([]slog.Attr, 0, 6)
	if event.Job != "" {
		attrs = append(attrs, slog.String("job", event.Job))
	}
	if event.Leases > 1 {
		attrs = append(attrs, slog.Int("leases", event.Leases))
	}
	attrs = append(attrs, slog.String("holder", event.Holder))
	if event.Token != 0 {
		attrs = append(attrs, slog.Int64("token", event.Token))
	}
	if event.Left > 0 {
		attrs = append(attrs, slog.Duration("left", event.Left))
	}
	if event.Err != nil {
		attrs = append(attrs, slog.Any("error", event.Err))
	}
	return attrs
}

func (event Event) message() string {
	switch event.Kind {
	case EventElected:
		return "leader: elected"
	case EventLost:
		return "leader: term lost"
	case EventResigned:
		return "leader: resigned"
	case EventSkipped:
		return "leader: skipped, held by " + event.Holder
	case EventWaiting:
		return "leader: waiting, held by " + event.Holder
	case EventRenewFailed:
		return "leader: renewal failed, trying again"
	case EventLookFailed:
		return "leader: look at the leases failed, trying again"
	case EventClaimFailed:
		return "leader: claim failed, trying again"
	case EventResignFailed:
		return "leader: release failed, the lease may live on until it expires"
	case EventClockSetBack:
		return "leader: lease freed, the database's clock was set back"
	}
	return "leader: " + string(event.Kind)
}

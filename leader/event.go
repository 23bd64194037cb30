package leader

import (
	"context"
	"log/slog"
	"time"
)

// EventKind says what an Event reports.
type EventKind string

// The kinds of events. Every Elected is followed by exactly one Lost or Resigned for the same token.
const (
	Elected      EventKind = "elected"        // this process leads the job
	Lost         EventKind = "lost"           // a term ended against its holder's will; Err says why
	Resigned     EventKind = "resigned"       // a term was given up; Err is set if the database could not be told
	Skipped      EventKind = "skipped"        // TryAcquire found the lease held by Holder
	Waiting      EventKind = "waiting"        // Campaign or Run found the lease held by Holder; once for each of its terms
	RenewFailed  EventKind = "renew_failed"   // a renewal failed and will be tried again; Job is empty, it concerns all terms
	LookFailed   EventKind = "look_failed"    // a look at the waited-for leases failed, the first of a row of failures; Job is empty
	ClaimFailed  EventKind = "claim_failed"   // Campaign or Run could not ask for the lease and will try again
	ResignFailed EventKind = "resign_failed"  // a release failed and will be tried again
	ClockSetBack EventKind = "clock_set_back" // this process freed the lease of Holder, which a wrong clock kept alive; Err says how
	SlotStarted  EventKind = "slot_started"   // work begins for Slot
	SlotFinished EventKind = "slot_finished"  // work has ended; State says how, Err why it is not done
	SlotsMissed  EventKind = "slots_missed"   // slots up to Slot were recorded as missed; Err says how many and why
	SlotRetry    EventKind = "slot_retry"     // the slots could not be looked at, and will be again
)

// Event is one thing that happened to a job in this process, for metrics. See Config.OnEvent. The end of one term and the beginning of the
// next may be reported in either order: for who leads now, believe the greatest token.
type Event struct {
	Kind   EventKind
	Job    string    // "" if it concerns every job of the process
	Holder string    // who leads: this elector, or for Skipped, Waiting and ClockSetBack the other one
	Token  int64     // the fencing token of Holder's term, 0 if it is not known
	Slot   time.Time // the slot, for events about one
	State  SlotState // what became of it, for SlotFinished
	Err    error     // nil if nothing went wrong

	again bool // the same was reported just before
}

func (e *Elector) emit(event Event) {
	level := slog.LevelInfo
	switch event.Kind {
	case Lost, RenewFailed, LookFailed, ClaimFailed, ResignFailed, ClockSetBack, SlotsMissed, SlotRetry:
		level = slog.LevelWarn
	case SlotFinished:
		if event.State != SlotDone || event.Err != nil {
			level = slog.LevelWarn
		}
	case Elected, Resigned, Waiting, Skipped, SlotStarted:
		if event.again {
			level = slog.LevelDebug
		}
	}
	ctx := context.Background()
	if e.log.Enabled(ctx, level) {
		attrs := make([]slog.Attr, 0, 6)
		if event.Job != "" {
			attrs = append(attrs, slog.String("job", event.Job))
		}
		attrs = append(attrs, slog.String("holder", event.Holder))
		if event.Token != 0 {
			attrs = append(attrs, slog.Int64("token", event.Token))
		}
		if !event.Slot.IsZero() {
			attrs = append(attrs, slog.Time("slot", event.Slot))
		}
		if event.State != "" {
			attrs = append(attrs, slog.String("state", string(event.State)))
		}
		if event.Err != nil {
			attrs = append(attrs, slog.Any("error", event.Err))
		}
		e.log.LogAttrs(ctx, level, message(event), attrs...)
	}
	if e.onEvent != nil {
		e.onEvent(event)
	}
}

func message(event Event) string {
	switch event.Kind {
	case Elected:
		return "leader: elected"
	case Lost:
		return "leader: term lost"
	case Resigned:
		return "leader: resigned"
	case Skipped:
		return "leader: skipped, held by " + event.Holder
	case Waiting:
		return "leader: waiting, held by " + event.Holder
	case RenewFailed:
		return "leader: renewal failed, trying again"
	case LookFailed:
		return "leader: look at the leases failed, trying again"
	case ClaimFailed:
		return "leader: claim failed, trying again"
	case ResignFailed:
		return "leader: release failed, trying again"
	case ClockSetBack:
		return "leader: lease freed, the database's clock was set back"
	case SlotStarted:
		return "leader: slot started"
	case SlotFinished:
		return "leader: slot " + string(event.State)
	case SlotsMissed:
		return "leader: slots missed"
	case SlotRetry:
		return "leader: look at the slots failed, trying again"
	}
	return "leader: " + string(event.Kind)
}

package worker

import (
	"fmt"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/explain"
	"github.com/pgleader/pgleader/cmd/pgleader/internal/words"
	"github.com/pgleader/pgleader/leader"
)

// tell tells an event, with what to do about it, and hands it on.
func (w *Worker) tell(event leader.Event) {
	voice := w.config.Voice
	line := w.config.describe(event)
	switch {
	case line.text == "":
	case line.warn:
		voice.Warn(event.Job, "%s", line.text)
	default:
		voice.Say(event.Job, "%s", line.text)
	}
	if line.again {
		voice.Advise(explain.Advice(event.Err))
	}
	if w.config.OnEvent != nil {
		w.config.OnEvent(event)
	}
}

// A line is what is said about an event, "" for nothing.
type line struct {
	text  string
	warn  bool // also with --quiet
	again bool // it is tried again, so that somebody may do something about it
}

// describe puts an event into the words of the command line.
func (c Config) describe(event leader.Event) line {
	failed := func(format string, args ...any) line {
		return line{text: fmt.Sprintf(format, args...) + ": " + explain.Message(event.Err), warn: true}
	}
	said := func(format string, args ...any) line { return line{text: fmt.Sprintf(format, args...)} }
	holder, slot := words.Name(event.Holder), words.Instant(event.Slot)
	switch event.Kind {
	case leader.Elected:
		return said("leading under token %d", event.Token)
	case leader.Lost:
		return said("lost the lease with token %d: %s", event.Token, explain.Message(event.Err))
	case leader.Resigned:
		if event.Err != nil {
			return failed("could not release the lease, it expires within %v", c.TTL)
		}
	case leader.Waiting:
		return said("waiting, %s leads under token %d", holder, event.Token)
	case leader.SlotStarted:
		return said("slot %s started", slot)
	case leader.SlotFinished:
		if event.Err != nil {
			return failed("slot %s %s", slot, event.State)
		}
		return said("slot %s %s", slot, event.State)
	case leader.SlotsMissed:
		return failed("slots up to %s", slot)
	case leader.RenewFailed, leader.LookFailed, leader.ClaimFailed, leader.SlotRetry:
		return line{text: explain.Message(event.Err) + ", trying again", warn: true, again: true}
	case leader.ClockSetBack:
		return failed("freed the lease of %s", holder)
	case leader.Skipped: // whoever asked says what it means
	case leader.ResignFailed: // Resigned follows
	}
	return line{}
}

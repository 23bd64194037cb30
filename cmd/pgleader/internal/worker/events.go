package worker

import (
	"fmt"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/explain"
	"github.com/pgleader/pgleader/cmd/pgleader/internal/words"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

// tell tells an event, with what to do about it, and hands it on.
func (w *Worker) tell(event leader.Event) {
	w.voiceLine(event.Job, w.config.describe(event), event.Err)
	if w.config.OnEvent != nil {
		w.config.OnEvent(event)
	}
}

// tellSlot is tell for an event about slots.
func (w *Worker) tellSlot(event schedule.Event) {
	w.voiceLine(event.Job, describeSlot(event), event.Err)
	if w.config.OnSlot != nil {
		w.config.OnSlot(event)
	}
}

func (w *Worker) voiceLine(job string, line line, err error) {
	voice := w.config.Voice
	switch {
	case line.text == "":
	case line.warn:
		voice.Warn(job, "%s", line.text)
	default:
		voice.Say(job, "%s", line.text)
	}
	if line.again {
		voice.Advise(explain.Advice(err))
	}
}

// A line is what is said about an event, "" for nothing.
type line struct {
	text  string
	warn  bool // also with --quiet
	again bool // it is tried again, so that somebody may do something about it
}

func said(format string, args ...any) line { return line{text: fmt.Sprintf(format, args...)} }

func failed(err error, format string, args ...any) line {
	return line{text: fmt.Sprintf(format, args...) + ": " + explain.Message(err), warn: true}
}

func tryingAgain(err error) line {
	return line{text: explain.Message(err) + ", trying again", warn: true, again: true}
}

// describe puts an event into the words of the command line.
func (c Config) describe(event leader.Event) line {
	holder := words.Name(event.Holder)
	switch event.Kind {
	case leader.EventElected:
		return said("leading under token %d", event.Token)
	case leader.EventLost:
		return said("lost the lease with token %d: %s", event.Token, explain.Message(event.Err))
	case leader.EventResigned:
		if event.Err != nil {
			return failed(event.Err, "could not release the lease, it expires within %v", c.TTL)
		}
	case leader.EventWaiting:
		return said("waiting, %s leads under token %d", holder, event.Token)
	case leader.EventRenewFailed, leader.EventLookFailed, leader.EventClaimFailed:
		return tryingAgain(event.Err)
	case leader.EventClockSetBack:
		return failed(event.Err, "freed the lease of %s", holder)
	case leader.EventSkipped: // whoever asked says what it means
	case leader.EventResignFailed: // Resigned follows
	}
	return line{}
}

// describeSlot is describe for an event about slots.
func describeSlot(event schedule.Event) line {
	slot, state := words.Instant(event.Slot), string(event.State)
	if state == "" {
		state = "ended, its record is not known"
	}
	switch event.Kind {
	case schedule.EventStarted:
		return said("slot %s started", slot)
	case schedule.EventFinished:
		if event.Err != nil {
			return failed(event.Err, "slot %s %s", slot, state)
		}
		return said("slot %s %s", slot, state)
	case schedule.EventGivenBack:
		return said("slot %s given back, its command was not started", slot)
	case schedule.EventMissed:
		return line{
			text: fmt.Sprintf("slots up to %s: %d missed: %s", slot, event.Count, event.Reason),
			warn: true,
		}
	case schedule.EventRetry:
		return tryingAgain(event.Err)
	}
	return line{}
}

// Package slotrun is one call of 'pgleader slot': it runs a command for the slot that is due,
// unless that was done, and says what became of it.
package slotrun

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/connect"
	"github.com/pgleader/pgleader/cmd/pgleader/internal/timetable"
	"github.com/pgleader/pgleader/cmd/pgleader/internal/words"
	"github.com/pgleader/pgleader/cmd/pgleader/internal/worker"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

// A Call says what to run, and for which slot: the one that is due by Schedule, or At.
type Call struct {
	Job worker.Job

	Schedule *timetable.Schedule // nil to run At
	Policy   schedule.Policy     // of Schedule's slots; every field is set
	At       time.Time

	Early    time.Duration // how long to wait for a slot that is about to come
	RetryFor time.Duration // how long to try again while the database cannot be reached
	StandBy  bool          // wait while another host runs the slot, and take over if that dies
}

// Run makes the call. The Result is that of the command; of several slots that of the first that
// failed, else of the last. It is zero if there was nothing to do here, which was told.
func Run(ctx context.Context, config worker.Config, call Call) (worker.Result, error) {
	r := &run{Call: call, voice: config.Voice}
	config.OnEvent = r.observe
	w, ctx, err := worker.Start(ctx, config)
	if err != nil {
		return worker.Result{}, err
	}
	defer w.Close()
	r.Worker, r.now = w, func(ctx context.Context) (time.Time, error) {
		return connect.Now(ctx, config.Pool)
	}
	at := call.At
	if call.Schedule != nil {
		at, err = r.due(ctx)
	}
	if err == nil && !at.IsZero() {
		err = r.single(ctx, at)
	}
	switch {
	case r.ran:
		return r.last, nil
	case w.Asked() != nil && errors.Is(err, context.Canceled):
		return worker.Result{}, nil
	}
	return worker.Result{}, err
}

// A run is a call while it runs.
type run struct {
	Call
	*worker.Worker
	voice *words.Voice
	now   func(context.Context) (time.Time, error) // the database's time

	onRival func(holder string) // called when another host leads the job; nil to wait for it
	rival   int64               // the token of the one that was last said to be waited for

	waiting bool // for one slot

	ran    bool          // whether a command was run
	last   worker.Result // of the last command, or of the first slot that failed
	lastAt time.Time     // which slot that was
}

func (r *run) observe(event leader.Event) {
	switch {
	case event.Kind != leader.EventSkipped:
	case r.onRival != nil:
		r.onRival(event.Holder)
	case r.waiting && event.Token != r.rival:
		r.rival = event.Token
		r.voice.Say(event.Job, "waiting, %s leads under token %d",
			words.Name(event.Holder), event.Token)
	}
}

// command is the work of a slot.
func (r *run) command(ctx context.Context, slot *schedule.Slot) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", schedule.ErrNotStarted, ctx.Err())
	}
	result := r.WorkSlot(ctx, r.Job, slot)
	if !r.ran || r.last.Failure() == nil || slot.Time().Equal(r.lastAt) {
		r.ran, r.last, r.lastAt = true, result, slot.Time()
	}
	return result.Failure()
}

// due runs what is due by the schedule. It returns a slot that another host is running, if this one
// is to stand by for it.
func (r *run) due(ctx context.Context) (time.Time, error) {
	for {
		var due schedule.Due
		err := r.patiently(ctx, func() (err error) {
			due, err = r.Scheduler.RunDue(ctx, r.Job.Name, r.Schedule, r.Policy, r.command)
			return err
		})
		if r.ran || err != nil { // the command's exit status says all
			return time.Time{}, err
		}
		step := r.next(due)
		if step.say != "" {
			r.voice.Say(r.Job.Name, "%s", step.say)
		}
		switch {
		case step.tell:
			return time.Time{}, r.tell(ctx, due.Slot)
		case !step.again:
			return step.standByFor, nil
		}
		if err := pause(ctx, step.wait); err != nil {
			return time.Time{}, err
		}
	}
}

// A step is what to do about an answer of RunDue that had nothing to run.
type step struct {
	say        string        // "" for nothing
	tell       bool          // what became of the slot has to be looked up
	again      bool          // ask again, after wait
	wait       time.Duration // from now on
	standByFor time.Time     // the slot, zero for none
}

// next decides what to do about an answer that had nothing to run.
func (r *run) next(due schedule.Due) step {
	rival, ahead := words.Name(due.Leader.Holder), due.Next.Sub(due.Now)
	switch {
	case due.Leader.Dismissed():
		return step{
			say: fmt.Sprintf("%s took the job away, it is free in %s, waiting",
				rival, words.Span(due.Leader.Left)),
			again: true, wait: due.Leader.Left + time.Millisecond,
		}
	case due.Leader.Job != "" && r.StandBy && !due.Slot.IsZero():
		return step{standByFor: due.Slot}
	case due.Leader.Job != "":
		return step{say: fmt.Sprintf("nothing to do for slot %s, %s leads the job under token %d",
			words.Instant(due.Slot), rival, due.Leader.Token)}
	// A slot that is nearer than the one that has come is meant: this host's clock is ahead.
	case !due.Next.IsZero() && ahead <= r.Early &&
		(due.Slot.IsZero() || ahead < due.Now.Sub(due.Slot)):
		return step{
			say: fmt.Sprintf("slot %s comes in %s by the database's clock, waiting",
				words.Instant(due.Next), words.Span(ahead)),
			again: true, wait: ahead,
		}
	case !due.Slot.IsZero():
		return step{tell: true}
	}
	if at := r.Schedule.Newest(due.Now); !at.IsZero() {
		return step{say: fmt.Sprintf(
			"slot %s came %s ago, and --grace is %v: too late to begin with it; the next one is %s",
			words.Instant(at), words.Span(due.Now.Sub(at)), r.Policy.Grace, words.Instant(due.Next))}
	}
	return step{say: "no slot is due, the next one is " + words.Instant(due.Next)}
}

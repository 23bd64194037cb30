package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/internal/pgcall"
	"github.com/pgleader/pgleader/leader"
)

// An ending is how one attempt ended.
type ending struct {
	slot  *Slot
	state State // what the database has on record, as far as this process knows; "" if it does not
	work  error // what the work returned, or errUncommitted
	why   error // why the state is another one than work's result, or is not known; or nil
}

// decided reports whether the slot's record is final.
func (e ending) decided() bool { return e.state == StateDone || e.state == StateFailed }

// final reports whether RunSlot returns with this attempt: it is decided, or was not begun, or its
// end could not be recorded though the term lived.
func (e ending) final() bool {
	return e.decided() || errors.Is(e.work, ErrNotStarted) || e.state == "" && e.slot.lost() == nil
}

// err is what a caller is told who waits for the slot.
func (e ending) err() error {
	if e.why == nil {
		return e.work
	}
	return errors.Join(e.why, e.work)
}

// learn takes over what is on record about the attempt: what was completed and looked uncommitted
// was committed all the same.
func (e *ending) learn(row db.ReadSlotRow) {
	e.state, e.why = State(row.State), nil
	if e.state == StateDone && errors.Is(e.work, errUncommitted) {
		e.work = nil
	}
}

// runAttempt runs the work of a claimed slot and records how it ended.
func (s *Scheduler) runAttempt(
	ctx context.Context, slot *Slot, work func(context.Context, *Slot) error,
) ending {
	// The term is asked as well: right after a pause of the process no context has ended yet.
	if err := cmp.Or(ctx.Err(), slot.term.Err()); err != nil {
		_ = s.giveBack(ctx, slot, err) // reported, and the next leader finds out
		return ending{slot: slot, state: StateAbandoned, why: err}
	}
	s.emit(slot.event(EventStarted))
	end := ending{slot: slot, state: StateAbandoned, why: errPanicked}
	defer func() { s.report(end) }()
	err := work(ctx, slot)
	end = s.conclude(ctx, slot, err)
	return end
}

// report is the one end that follows each EventStarted.
func (s *Scheduler) report(end ending) {
	event := end.slot.event(EventFinished)
	event.State, event.Err = end.state, end.err()
	s.emit(event)
}

// conclude records what the work has come to.
func (s *Scheduler) conclude(ctx context.Context, slot *Slot, err error) ending {
	end := ending{slot: slot, work: err}
	lost := slot.lost()
	switch {
	case errors.Is(err, ErrNotStarted) && !slot.completing.Load():
		end.state = StateAbandoned
		if failure := s.giveBack(ctx, slot, err); failure != nil {
			end.state, end.why = "", fmt.Errorf("%w as given back: %w", errUnrecorded, failure)
		}
	case lost != nil && slot.completing.Load(): // it may be on record as done
		return s.lookUp(ctx, end, lost)
	case lost != nil: // the next leader finds the slot running under an older term
		end.state, end.why = StateAbandoned, lost
	case err != nil && slot.interrupted(ctx):
		return s.record(ctx, end, StateAbandoned, "interrupted: "+err.Error())
	case err != nil:
		return s.record(ctx, end, StateFailed, err.Error())
	case slot.completing.Load():
		end.work = errUncommitted
		return s.record(ctx, end, StateFailed, strings.TrimPrefix(errUncommitted.Error(), "schedule: "))
	default:
		return s.record(ctx, end, StateDone, "")
	}
	return end
}

// record writes the end of an attempt down. It insists, for what has been done must be on record;
// but after the end of ctx or of the term, or on an error that will not pass, for no longer than a
// TTL: then the slot is left to the next leader.
func (s *Scheduler) record(ctx context.Context, end ending, state State, why string) ending {
	arg := end.slot.finish(state, why)
	background, limit := context.WithoutCancel(ctx), patience{s: s, ctx: ctx, slot: end.slot}
	for {
		n, err := pgcall.Ask(background, s.calls, func(ctx context.Context, q db.Querier) (int64, error) {
			return q.FinishSlot(ctx, arg)
		})
		switch {
		case err == nil && n > 0:
			end.state = state
			return end
		case err == nil: // an answer got lost, or it was completed, or a successor has it
			return s.lookUp(ctx, end, nil)
		case errors.Is(err, pgcall.ErrEncoding): // the name is fine, or the claim would have failed
			arg.Error = plain(arg.Error)
		}
		if limit.over(err) {
			end.why = fmt.Errorf("%w as %s: %w", errUnrecorded, state, err)
			return end
		}
	}
}

// lookUp reads what is on record about an attempt that is not running any more. Lost is why its
// term is over, or nil.
func (s *Scheduler) lookUp(ctx context.Context, end ending, lost error) ending {
	slot := end.slot
	background, limit := context.WithoutCancel(ctx), patience{s: s, ctx: ctx, slot: slot}
	for {
		row, err := pgcall.Ask(background, s.calls, s.readSlot(slot.term.Job(), slot.at))
		switch {
		case err == nil && !slot.is(row):
			end.state, end.why = StateAbandoned, errors.Join(lost, errTaken)
			return end
		case err == nil:
			end.learn(row)
			if end.state == StateRunning {
				end.state, end.why = StateAbandoned, lost
			}
			return end
		case limit.over(err):
			end.why = errors.Join(lost, fmt.Errorf("%w: %w", errUnrecorded, err))
			return end
		}
	}
}

var errTaken = errors.New("schedule: another leader has taken the slot over")

// lost returns why the term of the slot was lost, or nil. A term that work has resigned was not:
// what work says counts, while no successor has the slot.
func (s *Slot) lost() error {
	if err := s.term.Err(); errors.Is(context.Cause(s.term.Context()), leader.ErrLost) {
		return err
	}
	return nil
}

// interrupted reports whether the work's context ended from outside, by a shutdown, and not with a
// term that work has resigned.
func (s *Slot) interrupted(ctx context.Context) bool {
	ended := context.Cause(s.term.Context())
	return ctx.Err() != nil && context.Cause(ctx) != ended //nolint:errorlint // the very same
}

// is reports whether the record is still about this attempt.
func (s *Slot) is(row db.ReadSlotRow) bool {
	return row.Token == s.term.Token() && int(row.Attempt) == s.attempt
}

// A patience says how long to insist.
type patience struct {
	s    *Scheduler
	ctx  context.Context
	slot *Slot

	said bool
	ends time.Time // zero while nothing says that it must end
}

// over reports, after a failure, whether to give up, and else waits a little. The first failure is
// an event.
func (p *patience) over(err error) bool {
	if !p.said {
		p.said = true
		event := p.slot.event(EventRetry)
		event.Err = err
		p.s.emit(event)
	}
	now := time.Now()
	if p.ends.IsZero() && (p.ctx.Err() != nil || p.slot.term.Err() != nil || !pgcall.Passing(err)) {
		p.ends = now.Add(p.s.ttl)
	}
	if !p.ends.IsZero() && !now.Before(p.ends) {
		return true
	}
	wait := p.s.retryEvery / 4
	if p.ends.IsZero() { // the end of ctx must be noticed
		_ = pgcall.Sleep(p.ctx, wait)
	} else {
		time.Sleep(min(wait, p.ends.Sub(now)))
	}
	return false
}

package leader

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pgleader/pgleader/db"
)

// SlotState says what became of a slot. Done, failed and missed are final, unless somebody asks for another run; an abandoned slot is run
// again while its policy allows.
type SlotState string

// The states of a slot.
const (
	SlotRunning   SlotState = "running"   // its work runs, or the process died and no successor has noticed yet
	SlotDone      SlotState = "done"      // its work returned nil, or completed it
	SlotFailed    SlotState = "failed"    // its work returned an error
	SlotAbandoned SlotState = "abandoned" // its term ended, or its process was shut down, before its work had finished
	SlotMissed    SlotState = "missed"    // nobody could start it in time, or a later one was run in its place
	SlotRequested SlotState = "requested" // it was decided, and is to be run again: see Elector.Rerun
)

// Slot is one scheduled occurrence of a job, while its work runs.
type Slot struct {
	elector    *Elector
	term       *Term
	at         time.Time
	attempt    int
	completing atomic.Bool // Complete was called
}

// Time returns the instant of the schedule, in UTC, with the database's precision of a microsecond.
func (s *Slot) Time() time.Time { return s.at }

// Attempt returns 1 for the first run of the slot, and more for a run after a crash or an error.
func (s *Slot) Attempt() int { return s.attempt }

// Term returns the term under which the slot runs, for its token and its guard.
func (s *Slot) Term() *Term { return s.term }

// Complete finishes the slot as done inside tx, under the term's guard: what tx writes and "this slot is done" commit together or not at
// all, and nobody begins to lead the job before tx has ended. That is exactly once for everything that is in this database. A mail or an
// HTTP call is not: send it from a table that tx writes, or live with a second one after a crash.
//
// Commit before the work returns: what becomes of the slot can't be recorded while tx holds its row. An error that work returns after the
// commit is reported, and the slot stays done.
//
// It returns ErrLost if the term is over, ErrSlotDecided if the slot is finished already, and otherwise the database's error: roll back on
// each of them. If tx does not commit and the work returns nil all the same, the slot is failed.
func (s *Slot) Complete(ctx context.Context, tx *sql.Tx) error {
	s.completing.Store(true)
	if err := s.term.Guard(ctx, tx); err != nil {
		return err
	}
	_, err := db.New(tx).FinishSlot(ctx, s.finish(SlotDone, ""))
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("leader: complete %v: %w", s, ErrSlotDecided)
	}
	if err != nil {
		return fmt.Errorf("leader: complete %v: %w", s, explain(err))
	}
	return nil
}

// String returns the job and the instant, for messages.
func (s *Slot) String() string {
	return fmt.Sprintf("%q slot %s", s.term.job, s.at.Format(time.RFC3339Nano))
}

func (s *Slot) finish(state SlotState, why string) db.FinishSlotParams {
	return db.FinishSlotParams{
		JobName: s.term.job,
		Slot:    s.at,
		Holder:  s.elector.holder,
		Token:   s.term.token,
		State:   string(state),
		Error:   storable(why),
	}
}

// RunSlot runs work for one slot of a job, if no instance has run it yet: it waits until the slot's time has come by the database's clock,
// leads the job while work runs, and records how it ended. It reports whether this call ran the slot to its end, and then returns what work returned.
// If another instance has decided the slot, it returns false and no error; while another instance is running it, it waits, and runs the slot
// itself if that one dies.
//
// The context of work ends as it does in Run. If the term is lost the slot is abandoned, and the next leader runs it again, up to three
// attempts in all. So does a shutdown: work that returns an error after ctx has ended was interrupted. Work that returns any other error has failed,
// and the slot is not run again.
//
// It deletes no old records, as RunSchedule and RunDue do by Policy.Keep.
//
// It returns ErrSlotTime for an instant that cannot be stored, the errors of Campaign, and ctx's error if that ends before the slot is decided.
func (e *Elector) RunSlot(ctx context.Context, job string, slot time.Time, work func(context.Context, *Slot) error) (ran bool, err error) {
	if err := CheckJob(job); err != nil {
		return false, err
	}
	if work == nil {
		return false, errNoWork
	}
	at, err := slotTime(slot)
	if err != nil {
		return false, err
	}
	policy := Policy{}.withDefaults()
	var claimed int64 // the token of our last attempt
	var worked error  // what work returned in it
	wanted := func(ctx context.Context) error { return e.awaitSlot(ctx, job, at, policy) }
	for {
		again, err := e.lead(ctx, job, wanted, func(ctx context.Context, term *Term) error {
			if _, err := e.abandonSlots(ctx, term, policy, at); err != nil {
				return err
			}
			s, err := e.claimSlot(ctx, term, at, policy)
			if errors.Is(err, errNotLive) {
				return nil
			}
			if s == nil || err != nil {
				return err
			}
			claimed = term.token
			ran, err = e.workSlot(ctx, s, func(ctx context.Context, s *Slot) error {
				worked = work(ctx, s)
				return worked
			})
			return err
		})
		var d decidedError
		switch {
		case errors.As(err, &d):
			// Ours, if the slot was completed, or its failure recorded, just before the term was lost.
			ran = d.token == claimed && d.state != SlotAbandoned
			if ran && d.state == SlotFailed {
				return true, cmp.Or(worked, errUncommitted)
			}
			return ran, nil
		case ran || !again && err != nil:
			return ran, err
		}
		// Decided by another, or the term was lost: look again.
	}
}

// decidedError ends the campaign for a slot that is decided, under the given token.
type decidedError struct {
	token int64
	state SlotState
}

func (decidedError) Error() string { return "leader: slot is decided" }

var (
	errUncommitted = errors.New("leader: the transaction that completes the slot did not commit")

	// errNotLive says that the database does not know the term any more, or set its clock back, and this process cannot know
	// it yet.
	errNotLive = errors.New("leader: the slot could not be started: its term is over, or its time has not come again")
)

// awaitSlot waits until the slot's time has come, and returns a decidedError if it is decided. Failures of the database are left to the claim.
func (e *Elector) awaitSlot(ctx context.Context, job string, at time.Time, policy Policy) error {
	for {
		row, err := ask(ctx, e, readSlot(job, at))
		if hopeless(err) {
			return err
		}
		if err != nil {
			return ctx.Err()
		}
		if policy.decided(SlotState(row.State), row.Attempt) {
			return decidedError{row.Token, SlotState(row.State)}
		}
		early := at.Sub(row.Now)
		if early <= 0 {
			return nil
		}
		if err := sleep(ctx, min(early, maxSlotWait)); err != nil {
			return err
		}
	}
}

func readSlot(job string, at time.Time) func(context.Context, db.Querier) (db.ReadSlotRow, error) {
	return func(ctx context.Context, q db.Querier) (db.ReadSlotRow, error) {
		return q.ReadSlot(ctx, db.ReadSlotParams{JobName: job, Slot: at})
	}
}

// claimSlot starts a slot under a term. It returns nil if the slot is decided, and errNotLive if its time has not come or the
// term is over.
func (e *Elector) claimSlot(ctx context.Context, term *Term, at time.Time, policy Policy) (*Slot, error) {
	row, err := askTerm(ctx, term, func(ctx context.Context, q db.Querier) (db.ClaimSlotRow, error) {
		return q.ClaimSlot(ctx, db.ClaimSlotParams{
			JobName:      term.job,
			Holder:       e.holder,
			Token:        term.token,
			Slot:         at,
			MaxAttempts:  int32(policy.Attempts), //nolint:gosec // validated
			RepeatFailed: policy.RepeatFailed,
		})
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, cmp.Or(term.check(), errNotLive)
	}
	if err != nil {
		return nil, fmt.Errorf("leader: claim %q slot %s: %w", term.job, at.Format(time.RFC3339Nano), err)
	}
	if !row.Claimed {
		return nil, nil
	}
	s := &Slot{elector: e, term: term, at: at, attempt: int(row.Attempt)}
	e.emit(Event{Kind: SlotStarted, Job: term.job, Holder: e.holder, Token: term.token, Slot: at})
	return s, nil
}

// workSlot runs the work of a claimed slot and decides the slot. It reports whether the slot was decided.
func (e *Elector) workSlot(ctx context.Context, s *Slot, work func(context.Context, *Slot) error) (bool, error) {
	err := work(ctx, s)
	if lost := s.term.check(); lost != nil {
		return false, errors.Join(lost, err) // the next leader finds the slot running under an older term, unless it was completed
	}
	state, why := SlotDone, ""
	switch {
	case err != nil && ctx.Err() != nil:
		state, why = SlotAbandoned, "interrupted: "+err.Error()
	case err != nil:
		state, why = SlotFailed, err.Error()
	case s.completing.Load():
		err = errUncommitted
		state, why = SlotFailed, strings.TrimPrefix(err.Error(), "leader: ")
	}

	// Not ctx: it ends at a shutdown, and what has been done must be recorded all the same.
	background := context.WithoutCancel(ctx)
	finish := func(arg db.FinishSlotParams) error {
		_, err := insist(background, s.term, func(ctx context.Context, q db.Querier) (int32, error) {
			return q.FinishSlot(ctx, arg)
		})
		return err
	}
	finishErr := finish(s.finish(state, why))
	if errors.Is(finishErr, ErrJobName) { // the name is fine, or the claim would have failed: it is what work says
		why = plain(why)
		finishErr = finish(s.finish(state, why))
	}
	if errors.Is(finishErr, sql.ErrNoRows) { // completed, or an answer got lost, or a successor has it
		var row db.ReadSlotRow
		row, finishErr = insist(background, s.term, readSlot(s.term.job, s.at))
		if finishErr == nil && row.Token != s.term.token {
			return false, errors.Join(errTaken, err)
		}
		if SlotState(row.State) == SlotDone {
			state, why = SlotDone, ""
			if errors.Is(err, errUncommitted) {
				err = nil
			}
		}
	}
	if finishErr != nil {
		return false, fmt.Errorf("leader: finish %v as %s: %w", s, state, errors.Join(finishErr, err))
	}
	event := Event{Kind: SlotFinished, Job: s.term.job, Holder: e.holder, Token: s.term.token, Slot: s.at, State: state}
	switch {
	case why != "":
		event.Err = errors.New(why)
	case err != nil: // after Complete, and its commit
		event.Err = err
	}
	e.emit(event)
	return state != SlotAbandoned, err
}

// abandonSlots marks what older terms left running, and returns the slots since the given one that are to be started again.
func (e *Elector) abandonSlots(ctx context.Context, term *Term, policy Policy, since time.Time) ([]time.Time, error) {
	return askTerm(ctx, term, func(ctx context.Context, q db.Querier) ([]time.Time, error) {
		return q.AbandonSlots(ctx, db.AbandonSlotsParams{
			JobName:      term.job,
			Holder:       e.holder,
			Token:        term.token,
			MaxAttempts:  int32(policy.Attempts), //nolint:gosec // validated
			RepeatFailed: policy.RepeatFailed,
			Since:        since,
		})
	})
}

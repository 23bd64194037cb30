package schedule

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/internal/pgcall"
	"github.com/pgleader/pgleader/leader"
)

// claimGrace is how long a claim waits for its answer after its caller has gone, to give it back.
const claimGrace = time.Second

// claim starts the next attempt of a slot under a term. Last is how many attempts it is known to
// have had. It returns nil if the slot is decided, and errNotLive if its time has not come or the
// term is over. What is claimed when ctx has ended is given back.
func (s *Scheduler) claim(
	ctx context.Context, t *leader.Term, at time.Time, last int32, policy Policy,
) (*Slot, error) {
	for {
		slot := &Slot{term: t, holder: s.elector.Holder(), at: at, attempt: int(last) + 1}
		row, err := s.askForSlot(ctx, slot, last, policy)
		switch {
		case ctx.Err() != nil && (row.Claimed || err != nil && pgcall.Undecided(err)):
			_ = s.giveBack(ctx, slot, ctx.Err()) // reported
			return nil, ctx.Err()
		case errors.Is(err, sql.ErrNoRows):
			return nil, cmp.Or(t.Err(), errNotLive)
		case err != nil:
			return nil, fmt.Errorf("schedule: claim %v: %w", slot, err)
		case row.Claimed:
			return slot, nil
		case policy.decided(State(row.State), row.Attempt):
			return nil, nil
		case State(row.State) == StateRunning && row.Token == t.Token() && row.Attempt == last+1:
			// An answer got lost, and the term was over before the next.
			_ = s.giveBack(ctx, slot, errNotLive) // reported
			return nil, cmp.Or(t.Err(), errNotLive)
		case row.Attempt <= last: // nothing else keeps a live term from it
			return nil, cmp.Or(t.Err(), errNotLive)
		}
		last = row.Attempt // it has had more than was known
	}
}

// askForSlot hears the answer out, for a while also when ctx has ended.
func (s *Scheduler) askForSlot(
	ctx context.Context, slot *Slot, last int32, policy Policy,
) (db.ClaimSlotRow, error) {
	patient, cancel := pgcall.Outlast(ctx, min(s.callLimit, claimGrace))
	defer cancel()
	t, insists := slot.term, s.insists(slot.event(EventRetry))
	again := func(err error) bool {
		return ctx.Err() == nil && t.Err() == nil && insists(err)
	}
	return pgcall.AskWhile(patient, s.calls, again,
		func(ctx context.Context, q db.Querier) (db.ClaimSlotRow, error) {
			return q.ClaimSlot(ctx, db.ClaimSlotParams{
				JobName:      t.Job(),
				Holder:       slot.holder,
				Token:        t.Token(),
				Slot:         slot.at,
				LastAttempt:  last,
				MaxAttempts:  int32(policy.Attempts), //nolint:gosec // validated
				RepeatFailed: policy.RepeatFailed,
			})
		})
}

// giveBack undoes a claim whose work was never begun, so that the attempt does not count, and a run
// that was requested is so still, unless it was this term's own work that has declined it. Where
// that fails, the next leader finds the slot abandoned, and the attempt counts.
func (s *Scheduler) giveBack(ctx context.Context, slot *Slot, why error) error {
	over := ctx.Err() != nil || slot.term.Err() != nil || errors.Is(why, errNotLive)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.callLimit)
	defer cancel()
	arg := slot.finish(StateAbandoned, "given back before the work began: "+why.Error())
	give := func(ctx context.Context, q db.Querier) (int64, error) {
		return q.GiveBackSlot(ctx, db.GiveBackSlotParams{
			JobName: arg.JobName,
			Slot:    arg.Slot,
			Holder:  arg.Holder,
			Token:   arg.Token,
			Attempt: arg.Attempt,
			Error:   arg.Error,

			KeepRequest: over,
		})
	}
	n, err := pgcall.AskWhile(ctx, s.calls, pgcall.Passing, give)
	if errors.Is(err, pgcall.ErrEncoding) { // the name is fine, or the claim would have failed
		arg.Error = plain(arg.Error)
		n, err = pgcall.AskWhile(ctx, s.calls, pgcall.Passing, give)
	}
	if err == nil && n == 0 {
		return nil // it was not claimed
	}
	event := slot.event(EventGivenBack)
	event.Err = err
	s.emit(event)
	return err
}

// event is one about this attempt.
func (s *Slot) event(kind EventKind) Event {
	return Event{
		Kind: kind, Job: s.term.Job(), Token: s.term.Token(), Slot: s.at, Attempt: s.attempt,
	}
}

// abandon marks what older terms left running, and returns the slots since the given one that are
// to be started again. One that was given back, and has had no attempt, is so since first.
func (s *Scheduler) abandon(
	ctx context.Context, t *leader.Term, policy Policy, since, first time.Time,
) ([]db.AbandonSlotsRow, error) {
	return askTerm(ctx, s, t, func(ctx context.Context, q db.Querier) ([]db.AbandonSlotsRow, error) {
		return q.AbandonSlots(ctx, db.AbandonSlotsParams{
			JobName:      t.Job(),
			Holder:       s.elector.Holder(),
			Token:        t.Token(),
			MaxAttempts:  int32(policy.Attempts), //nolint:gosec // validated
			RepeatFailed: policy.RepeatFailed,
			Since:        since,
			FirstSince:   first,
		})
	})
}

func (s *Scheduler) readSlot(job string, at time.Time) pgcall.Question[db.ReadSlotRow] {
	return func(ctx context.Context, q db.Querier) (db.ReadSlotRow, error) {
		return q.ReadSlot(ctx, db.ReadSlotParams{JobName: job, Slot: at})
	}
}

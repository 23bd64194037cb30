package schedule

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/internal/pgcall"
	"github.com/pgleader/pgleader/leader"
)

// turn runs whatever is due. If nothing is, it returns how long to wait for what comes next.
func (r *runner) turn(ctx context.Context, term *leader.Term) (wait time.Duration, err error) {
	survey, err := askTerm(ctx, r.Scheduler, term, r.survey)
	if err != nil {
		return 0, err
	}
	if err := r.settle(ctx); err != nil {
		return 0, err
	}
	now, from := survey.Now, r.from(survey)
	fresh, idle := r.idle.IsZero(), earlier(r.idle, now) // its clock may have been ahead
	if fresh {
		idle = now // the term is new, or a slot was run: until now nobody was there to start one in time
	}
	p, err := r.plan(from, now, idle)
	if err != nil {
		return 0, err
	}
	r.found.saw(survey, p.next)
	if fresh || survey.Requested {
		since := r.restartable(from, now, p.overtaken)
		again, err := r.abandon(ctx, term, r.policy, since, now.Add(-r.policy.Grace))
		if err != nil {
			return 0, err
		}
		// Before anything newer is recorded: a slot that is cut off once more must still be the newest.
		again = slices.DeleteFunc(again, func(row db.AbandonSlotsRow) bool { return row.Slot.After(now) })
		if len(again) > 0 {
			return 0, r.startAll(ctx, term, again)
		}
	}
	r.idle = idle // not before older terms were cleared up after
	if err := r.miss(ctx, term, p.missed); err != nil {
		return 0, err
	}
	if len(p.run) > 0 {
		first := make([]db.AbandonSlotsRow, len(p.run))
		for i, at := range p.run {
			first[i].Slot = at
		}
		return 0, r.startAll(ctx, term, first)
	}
	return p.wait, nil
}

// from returns the slot after which the schedule is to be followed.
func (r *runner) from(survey db.SurveySlotsRow) time.Time {
	if survey.Newest.Unix() != 0 {
		return survey.Newest
	}
	r.since = earlier(r.since, survey.Now) // its clock may have been ahead
	return r.since
}

// startAll runs slots one after another, and then clears old ones away.
func (r *runner) startAll(
	ctx context.Context, term *leader.Term, slots []db.AbandonSlotsRow,
) error {
	r.idle = time.Time{}
	for _, row := range slots {
		if err := r.start(ctx, term, row.Slot, row.Attempt); err != nil || ctx.Err() != nil {
			return err
		}
	}
	return r.prune(ctx, term)
}

// start runs one slot, and again after an error if the policy says so. Its error is never the
// work's, which does not end the schedule.
func (r *runner) start(ctx context.Context, term *leader.Term, at time.Time, last int32) error {
	for {
		slot, err := r.claim(ctx, term, at, last, r.policy)
		if slot == nil || err != nil {
			return err
		}
		end := r.runAttempt(ctx, slot, r.work)
		switch {
		case end.decided():
			r.found.Ran++
			r.failure = end.err()
		case end.state == "":
			r.unsettled = &end
			return end.why
		case errors.Is(end.work, ErrNotStarted):
			r.failure = end.work
			return nil
		case errors.Is(end.why, leader.ErrLost): // what the work returned says nothing
			return end.why
		default: // cut off, or taken over, or requested again since
			r.failure = end.work
			return cmp.Or(end.why, ctx.Err())
		}
		if end.state == StateDone || !r.policy.RepeatFailed || slot.attempt >= r.policy.Attempts {
			return nil // an error is on record with the slot
		}
		if err := pgcall.Sleep(ctx, r.retryWait()); err != nil {
			return err
		}
		last = int32(slot.attempt) //nolint:gosec // the column's type
	}
}

// settle finds out what is on record about an attempt whose end could not be recorded, or whose
// answer got lost: an error of work must reach whoever waits for it.
func (r *runner) settle(ctx context.Context) error {
	if r.unsettled == nil {
		return nil
	}
	end := *r.unsettled
	row, err := pgcall.AskAmongRivals(ctx, r.calls, r.readSlot(r.job, end.slot.at))
	if err != nil {
		return err
	}
	r.unsettled = nil
	if !end.slot.is(row) {
		return nil // it is run again
	}
	unrecorded := end.err()
	if end.learn(row); end.decided() {
		r.found.Ran++
		r.failure = end.work
	} else {
		r.failure = unrecorded
	}
	return nil
}

// miss records missed slots, the oldest first: what is older than the newest one on record is never
// looked for again.
func (r *runner) miss(ctx context.Context, term *leader.Term, missed []omission) error {
	for _, m := range missed {
		text, err := json.Marshal(m.slots)
		if err != nil {
			return err
		}
		n, err := askTerm(ctx, r.Scheduler, term, func(ctx context.Context, q db.Querier) (int64, error) {
			return q.MissSlots(ctx, db.MissSlotsParams{
				JobName: r.job,
				Holder:  r.elector.Holder(),
				Token:   term.Token(),
				Slots:   string(text),
				Error:   m.why,
			})
		})
		if err != nil {
			return err
		}
		if n > 0 {
			r.emit(Event{
				Kind: EventMissed, Job: r.job, Token: term.Token(), Slot: m.slots[len(m.slots)-1],
				Count: int(n), Reason: m.why,
			})
		}
	}
	if len(missed) > 0 {
		return r.prune(ctx, term)
	}
	return nil
}

const (
	maxPruned  = 1000 // slots that are deleted by one statement
	maxPruning = 10   // such statements at once: more than one turn records
)

// prune deletes old slots, faster than they come.
func (r *runner) prune(ctx context.Context, term *leader.Term) error {
	for range maxPruning {
		n, err := askTerm(ctx, r.Scheduler, term, func(ctx context.Context, q db.Querier) (int64, error) {
			return q.PruneSlots(ctx, db.PruneSlotsParams{
				JobName:     r.job,
				KeepSeconds: r.policy.Keep.Seconds(),
				MaxRows:     maxPruned,
			})
		})
		if err != nil || n < maxPruned {
			return err
		}
	}
	return nil
}

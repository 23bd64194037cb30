package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/internal/pgcall"
	"github.com/pgleader/pgleader/leader"
)

// RunSlot runs work for one slot of a job, if no instance has run it yet: it waits until the slot's
// time has come by the database's clock, leads the job while work runs, and records how it ended.
// It reports whether this call ran the slot to its end, and then returns what work returned. If
// another instance has decided the slot, it returns false and no error; while another instance is
// running it, it waits, and runs the slot itself if that one dies.
//
// The context of work ends as it does in leader.Elector.Run. If the term is lost the slot is
// abandoned, and the next leader runs it again, up to three attempts in all. So does a shutdown:
// work that returns an error after ctx has ended was interrupted. Work that returns any other error
// has failed, and the slot is not run again.
//
// It deletes no old records, as Run and RunDue do by Policy.Keep.
//
// It returns ErrSlotTime for an instant that cannot be stored, errors that are leader.Permanent,
// and ctx's error if that ends before the slot is decided. It waits out every other failure of the
// database.
func (s *Scheduler) RunSlot(
	ctx context.Context, job string, slot time.Time, work func(context.Context, *Slot) error,
) (ran bool, err error) {
	if err := leader.CheckJob(job); err != nil {
		return false, err
	}
	if work == nil {
		return false, errNoWork
	}
	at, err := slotTime(slot)
	if err != nil {
		return false, err
	}
	o := &oneSlot{Scheduler: s, job: job, at: at, work: work, policy: Policy{}.withDefaults()}
	return o.run(ctx)
}

// A oneSlot is one call of RunSlot.
type oneSlot struct {
	*Scheduler
	job    string
	at     time.Time
	work   func(context.Context, *Slot) error
	policy Policy

	end     *ending // of this call's last attempt
	failing bool    // since the last answer
}

func (o *oneSlot) run(ctx context.Context) (ran bool, err error) {
	for {
		row, decided, err := o.await(ctx)
		switch {
		case err != nil:
			return false, o.giveUp(err)
		case decided:
			return o.outcome(row)
		}
		lead := func(ctx context.Context, term *leader.Term) error {
			return o.lead(ctx, term, row.Attempt)
		}
		led, held, err := o.elector.TryRun(ctx, o.job, lead)
		switch {
		case led && o.end != nil && o.end.final():
			return o.end.decided(), o.end.err()
		case ctx.Err() != nil:
			return false, o.giveUp(ctx.Err())
		case leader.Permanent(err):
			return false, o.giveUp(err)
		case err != nil && !errors.Is(err, leader.ErrLost):
			_ = o.retry(ctx, err) // await notices the end of ctx
		case !led:
			o.awaitFree(ctx, held)
		}
	}
}

// giveUp is what RunSlot returns before the slot is decided: never less than what work returned.
func (o *oneSlot) giveUp(err error) error {
	err = fmt.Errorf("schedule: %s: %w", slotName(o.job, o.at), err)
	switch {
	case o.end == nil || o.end.work == nil:
		return err
	case o.end.state == "":
		return errors.Join(err, o.end.err())
	}
	return errors.Join(err, o.end.work)
}

// retry waits after a failure, and reports the first of a row.
func (o *oneSlot) retry(ctx context.Context, err error) error {
	if !o.failing && !errors.Is(err, errNotLive) {
		o.failing = true
		o.emit(Event{Kind: EventRetry, Job: o.job, Slot: o.at, Err: err})
	}
	return pgcall.Sleep(ctx, o.retryWait())
}

// await waits until the slot's time has come, and reports whether the slot is decided.
func (o *oneSlot) await(ctx context.Context) (row db.ReadSlotRow, decided bool, err error) {
	for {
		row, err := pgcall.AskAmongRivals(ctx, o.calls, o.readSlot(o.job, o.at))
		switch {
		case ctx.Err() != nil:
			return row, false, ctx.Err()
		case pgcall.Permanent(err):
			return row, false, err
		case err != nil:
			if err := o.retry(ctx, err); err != nil {
				return row, false, err
			}
			continue
		}
		o.failing = false
		early := o.at.Sub(row.Now)
		if decided := o.policy.decided(State(row.State), row.Attempt); decided || early <= 0 {
			return row, decided, nil
		}
		if err := pgcall.Sleep(ctx, min(early, maxWait)); err != nil {
			return row, false, err
		}
	}
}

// outcome is what RunSlot returns for a slot that is decided: its own result, if it ran the slot
// and the answer got lost, or the term was lost just after.
func (o *oneSlot) outcome(row db.ReadSlotRow) (ran bool, err error) {
	switch {
	case o.end == nil || !o.end.slot.is(row):
		return false, nil
	case State(row.State) == StateAbandoned && o.end.state == "":
		return false, o.end.err() // it could not be recorded in time, and is not run again
	case State(row.State) == StateAbandoned:
		return false, nil
	}
	o.end.learn(row)
	return true, o.end.work
}

// lead runs the slot under a term, unless it is decided by now. Last is how many attempts it is
// known to have had. Its error is never the work's.
func (o *oneSlot) lead(ctx context.Context, term *leader.Term, last int32) error {
	if _, err := o.abandon(ctx, term, o.policy, o.at, o.at); err != nil {
		return err
	}
	slot, err := o.claim(ctx, term, o.at, last, o.policy)
	if slot == nil || err != nil {
		return err
	}
	end := o.runAttempt(ctx, slot, o.work)
	o.end = &end
	return end.why
}

// awaitFree waits until the job's lease becomes free, and no longer than until the slot should be
// read again: whoever leads the job may decide it and lead on. Held is the lease as the last claim
// found it. One that was free already, and could not be had, is locked; and this process's own says
// nothing while its work has not returned.
func (o *oneSlot) awaitFree(ctx context.Context, held leader.Lease) {
	ctx, cancel := context.WithTimeout(ctx, o.retryWait())
	defer cancel()
	live := held.Live() && held.Holder != o.elector.Holder()
	for lease, err := range o.elector.Observe(ctx, o.job) {
		switch {
		case err != nil:
		case lease.Live():
			live = true
		case live:
			return
		}
	}
	_ = pgcall.Sleep(ctx, o.retryEvery) // if a failure has ended it sooner
}

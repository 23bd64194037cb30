package schedule

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/internal/pgcall"
	"github.com/pgleader/pgleader/leader"
)

// Run runs work for every slot of the schedule, on one of the instances that call it with the same
// job: each slot is started once, by the database's clock, and recorded. Call it on every instance,
// with the same schedule and policy. It returns when ctx ends, with its error, and earlier only
// with ErrSchedule or an error that is leader.Permanent.
//
// A job has one schedule: what is older than the newest slot on record counts as dealt with. Of
// very many slots that were missed the latest one or two thousand are recorded.
//
// One instance leads the job and runs its slots, one after another; when it dies, stalls or shuts
// down another one takes over, and runs the slot again that was cut off. An error of work is
// recorded with the slot, and the schedule goes on, also if work resigns the term. The context of
// work ends as it does in leader.Elector.Run, and so does a panic.
//
// Run resumes after the newest recorded slot. Without one it starts a TTL before the last renewal
// of the job's lease, but not before that term began; a job that was never led starts now. See
// Policy for slots that are late, missed, cut off or failed, and History for what became of each.
func (s *Scheduler) Run(
	ctx context.Context, job string, schedule Schedule, policy Policy,
	work func(context.Context, *Slot) error,
) error {
	r, err := s.runner(job, schedule, policy, work)
	if err != nil {
		return err
	}
	for {
		err := r.anchor(ctx)
		if err == nil {
			break
		}
		if err := r.pause(ctx, err); err != nil {
			return err
		}
	}
	for {
		err := s.elector.Run(ctx, job, r.follow)
		if ctx.Err() != nil || final(err) {
			return err
		}
		// The term was given up, by work or because an end could not be recorded: lead again.
		if err := pgcall.Sleep(ctx, s.retryWait()); err != nil {
			return err
		}
	}
}

// A runner is one call of Run or RunDue.
type runner struct {
	*Scheduler
	planner
	job   string
	work  func(context.Context, *Slot) error
	since time.Time // where to start a job that has no slots on record

	found     Due       // what this call has found and done
	failure   error     // of the work that it ran last, or why its end is not on record
	unsettled *ending   // of which this process does not know what is on record
	idle      time.Time // since when it has led and done nothing, by database time; or zero
	said      time.Time // when a failure was last reported
}

// runner checks the arguments of Run and RunDue.
func (s *Scheduler) runner(
	job string, schedule Schedule, policy Policy, work func(context.Context, *Slot) error,
) (*runner, error) {
	policy = policy.withDefaults()
	if err := policy.Validate(); err != nil {
		return nil, err
	}
	if work == nil {
		return nil, errNoWork
	}
	if schedule == nil {
		return nil, fmt.Errorf("%w: it is nil", ErrSchedule)
	}
	if err := leader.CheckJob(job); err != nil {
		return nil, err
	}
	r := &runner{Scheduler: s, planner: planner{schedule, policy}, job: job, work: work}
	// Also of a schedule that ends, the last slot is to be run.
	from := ceil(time.Now().Add(-policy.Grace))
	if next, err := r.next(from); err != nil {
		return nil, err
	} else if next.IsZero() {
		return nil, fmt.Errorf("%w: it has no instant after %s", ErrSchedule, from.Format(time.RFC3339))
	}
	return r, nil
}

// anchor asks once where the job stands, before this instance makes itself its leader.
func (r *runner) anchor(ctx context.Context) error {
	survey, err := pgcall.AskAmongRivals(ctx, r.calls, r.survey)
	if err != nil {
		return err
	}
	r.since = survey.Now
	r.found.saw(survey, time.Time{})
	if led := survey.RenewedAt; led.Unix() != 0 && led.Before(survey.Now) {
		// Whoever led may have died after a renewal and before it began the slot of that time. Nothing is
		// run twice for going back: what was run would be on record.
		r.since = led.Add(-r.ttl)
		if survey.AcquiredAt.After(r.since) {
			r.since = survey.AcquiredAt
		}
	}
	return nil
}

func (r *runner) survey(ctx context.Context, q db.Querier) (db.SurveySlotsRow, error) {
	return q.SurveySlots(ctx, r.job)
}

// repeatEvery is how often a failure is reported that lasts.
const repeatEvery = time.Minute

// pause waits after a failure, or returns it if waiting doesn't help.
func (r *runner) pause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("schedule: slots of %q: %w", r.job, ctx.Err())
	}
	if final(err) {
		return fmt.Errorf("schedule: slots of %q: %w", r.job, err)
	}
	if now := time.Now(); r.said.IsZero() || now.Sub(r.said) >= repeatEvery {
		r.said = now
		r.emit(Event{Kind: EventRetry, Job: r.job, Err: err})
	}
	return pgcall.Sleep(ctx, r.retryWait())
}

// final reports whether Run returns this error.
func final(err error) bool { return leader.Permanent(err) || errors.Is(err, ErrSchedule) }

// follow runs the slots for one term. It returns when ctx ends, which it does with the term, or
// with errUnrecorded.
func (r *runner) follow(ctx context.Context, term *leader.Term) error {
	r.idle = time.Time{}
	for {
		wait, err := r.turn(ctx, term)
		if err == nil {
			r.said = time.Time{}
			err = pgcall.Sleep(ctx, wait)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errUnrecorded):
			return err
		case err != nil:
			if err := r.pause(ctx, err); err != nil {
				return err
			}
		}
	}
}

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
	end.state = State(row.State)
	switch {
	case end.slot.is(row) && end.decided():
		if end.state == StateDone && errors.Is(end.work, errUncommitted) {
			end.work = nil
		}
		r.found.Ran++
		r.failure = end.work
	case end.slot.is(row): // unless it is run again
		r.failure = end.err()
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

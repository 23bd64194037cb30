package leader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pgleader/pgleader/db"
)

// Schedule says when a job is to run: Next returns the first instant after the given one, or the zero time if there is none. It is given
// times in UTC; a schedule that means local times converts them itself. Any cron library's schedule fits.
type Schedule interface {
	Next(after time.Time) time.Time
}

// RunSchedule runs work for every slot of the schedule, on one of the instances that call it with the same job: each slot is started once, by the
// database's clock, and recorded. Call it on every instance, with the same schedule and policy. It returns when ctx ends, with its error, and
// earlier only with ErrSchedule, ErrJobName, ErrNotMigrated, or for missing rights.
//
// A job has one schedule: what is older than the newest slot on record counts as dealt with. Of very many slots that were missed the latest one or
// two thousand are recorded.
//
// One instance leads the job and runs its slots, one after another; when it dies, stalls or shuts down another one takes over, and runs the
// slot again that was cut off. An error of work is recorded with the slot, and the schedule goes on. The context of work ends as it does
// in Run, and so does a panic.
//
// Slots are followed from the newest one on record. A job without any starts from a TTL before its lease was last renewed, or the beginning of that term, if it was led before, and else
// from now. See Policy for slots that are late, missed, cut off or failed, and History for what became of each.
func (e *Elector) RunSchedule(ctx context.Context, job string, schedule Schedule, policy Policy, work func(context.Context, *Slot) error) error {
	r, err := e.roster(job, schedule, policy, work)
	if err != nil {
		return err
	}
	if err := r.begin(ctx); err != nil {
		return err
	}
	return e.Run(ctx, job, r.lead)
}

// A roster is one call of RunSchedule or RunDue.
type roster struct {
	elector  *Elector
	job      string
	schedule Schedule
	policy   Policy
	work     func(context.Context, *Slot) error
	since    time.Time // where to start a job that has no slots on record

	found   Due   // what this call has found and done
	failure error // of the last slot that it ran
}

// roster checks the arguments of RunSchedule and RunDue.
func (e *Elector) roster(job string, schedule Schedule, policy Policy, work func(context.Context, *Slot) error) (*roster, error) {
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
	// Also of a schedule that ends, the last slot is to be run.
	if from := time.Now().UTC().Add(-policy.Grace); !schedule.Next(from).After(from) {
		return nil, fmt.Errorf("%w: it has no instant after %s", ErrSchedule, from.Format(time.RFC3339))
	}
	if err := CheckJob(job); err != nil {
		return nil, err
	}
	return &roster{elector: e, job: job, schedule: schedule, policy: policy, work: work}, nil
}

// begin finds out where the job stands, however long that takes.
func (r *roster) begin(ctx context.Context) error {
	for {
		err := r.anchor(ctx)
		if err == nil {
			return nil
		}
		if err := r.pause(ctx, err); err != nil {
			return err
		}
	}
}

// anchor asks once where the job stands, before this instance makes itself its leader.
func (r *roster) anchor(ctx context.Context) error {
	survey, err := askAmongRivals(ctx, r.elector, r.survey)
	if err != nil {
		return err
	}
	r.since = survey.Now
	r.found.saw(survey, time.Time{})
	if led := survey.RenewedAt; led.Unix() != 0 && led.Before(survey.Now) {
		// Whoever led may have died after a renewal and before it began the slot of that time. Nothing is run twice for going
		// back: what was run would be on record.
		r.since = led.Add(-r.elector.ttl)
		if survey.AcquiredAt.After(r.since) {
			r.since = survey.AcquiredAt
		}
	}
	return nil
}

// pause waits after a failure, or returns it if waiting doesn't help.
func (r *roster) pause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("leader: schedule of %q: %w", r.job, ctx.Err())
	}
	if hopeless(err) || errors.Is(err, ErrSchedule) {
		return fmt.Errorf("leader: schedule of %q: %w", r.job, err)
	}
	r.elector.emit(Event{Kind: SlotRetry, Job: r.job, Holder: r.elector.holder, Err: err})
	return sleep(ctx, r.elector.retryWait())
}

func (r *roster) survey(ctx context.Context, q db.Querier) (db.SurveySlotsRow, error) {
	return q.SurveySlots(ctx, r.job)
}

// lead runs the slots for one term. It returns when ctx ends, which it does with the term.
func (r *roster) lead(ctx context.Context, term *Term) error {
	var idle time.Time // since when this process has led and done nothing, by the database's clock
	for {
		wait, err := r.turn(ctx, term, &idle)
		if err == nil && wait > 0 {
			err = sleep(ctx, wait)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			if err := r.pause(ctx, err); err != nil {
				return err
			}
		}
	}
}

// turn runs whatever is due. If nothing is, it returns how long to wait for what comes next.
func (r *roster) turn(ctx context.Context, term *Term, idle *time.Time) (wait time.Duration, err error) {
	survey, err := askTerm(ctx, term, r.survey)
	if err != nil {
		return 0, err
	}
	now, from := survey.Now, r.from(survey)
	fresh, since := idle.IsZero(), earlier(*idle, now) // its clock may have been ahead
	if fresh {
		since = now // the term is new, or a slot was run: until now nobody was there to start a slot in time
	}
	p, err := r.plan(from, now, since)
	if err != nil {
		return 0, err
	}
	r.found.saw(survey, p.next)
	if fresh || survey.Requested {
		again, err := r.elector.abandonSlots(ctx, term, r.policy, r.restartable(from, now, len(p.run) > 0))
		if err != nil {
			return 0, err
		}
		// Before anything newer is recorded: a slot that is cut off once more must still be the newest one then.
		again = slices.DeleteFunc(again, func(at time.Time) bool { return at.After(now) })
		if len(again) > 0 {
			return 0, r.startAll(ctx, term, again, idle)
		}
	}
	*idle = since // not before older terms were cleared up after
	if err := r.miss(ctx, term, p.missed); err != nil {
		return 0, err
	}
	if len(p.run) > 0 {
		return 0, r.startAll(ctx, term, p.run, idle)
	}
	return p.wait, nil
}

// from returns the slot after which the schedule is to be followed.
func (r *roster) from(survey db.SurveySlotsRow) time.Time {
	if survey.Newest.Unix() != 0 {
		return survey.Newest
	}
	r.since = earlier(r.since, survey.Now) // its clock may have been ahead
	return r.since
}

// startAll runs slots one after another, and then clears old ones away.
func (r *roster) startAll(ctx context.Context, term *Term, slots []time.Time, idle *time.Time) error {
	*idle = time.Time{}
	for _, at := range slots {
		if err := r.start(ctx, term, at); err != nil || ctx.Err() != nil {
			return err
		}
	}
	return r.prune(ctx, term)
}

// start runs one slot, and again after an error if the policy says so.
func (r *roster) start(ctx context.Context, term *Term, at time.Time) error {
	for {
		s, err := r.elector.claimSlot(ctx, term, at, r.policy)
		if s == nil || err != nil {
			return err
		}
		decided, err := r.elector.workSlot(ctx, s, r.work)
		if decided {
			r.found.Ran++
			r.failure = err
		}
		switch {
		case !decided:
			return err
		case err == nil || !r.policy.RepeatFailed || s.attempt >= r.policy.Attempts:
			return nil // an error is on record with the slot
		}
		if err := sleep(ctx, r.elector.retryWait()); err != nil {
			return err
		}
	}
}

// miss records missed slots, the oldest first: what is older than the newest one on record is never looked for again.
func (r *roster) miss(ctx context.Context, term *Term, missed []omission) error {
	e := r.elector
	for _, m := range missed {
		why, slots := m.why, m.slots
		text, err := json.Marshal(slots)
		if err != nil {
			return err
		}
		n, err := askTerm(ctx, term, func(ctx context.Context, q db.Querier) (int64, error) {
			return q.MissSlots(ctx, db.MissSlotsParams{
				JobName: r.job,
				Holder:  e.holder,
				Token:   term.token,
				Slots:   string(text),
				Error:   why,
			})
		})
		if err != nil {
			return err
		}
		if n > 0 {
			e.emit(Event{
				Kind: SlotsMissed, Job: r.job, Holder: e.holder, Token: term.token, Slot: slots[len(slots)-1],
				Err: fmt.Errorf("%d missed: %s", n, why),
			})
		}
	}
	return nil
}

// prune deletes a bounded number of old slots.
func (r *roster) prune(ctx context.Context, term *Term) error {
	_, err := askTerm(ctx, term, func(ctx context.Context, q db.Querier) (int64, error) {
		return q.PruneSlots(ctx, db.PruneSlotsParams{JobName: r.job, KeepSeconds: r.policy.Keep.Seconds(), MaxRows: maxPruned})
	})
	return err
}

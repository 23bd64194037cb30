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

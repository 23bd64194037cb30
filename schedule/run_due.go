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

// Due is what a call of RunDue found and did.
type Due struct {
	Ran    int          // how many slots this call ran to their end
	Slot   time.Time    // the newest slot that has come, zero if there was none yet
	Leader leader.Lease // of whoever leads the job instead; the zero Lease if this call led it
	Now    time.Time    // the database's time when it looked last
	Next   time.Time    // the first slot after Now, zero if there is none
}

// saw notes what the database said. Without slots on record Slot stays zero.
func (d *Due) saw(survey db.SurveySlotsRow, next time.Time) {
	d.Now, d.Next, d.Slot = survey.Now.UTC(), next, time.Time{}
	if survey.Newest.Unix() > 0 {
		d.Slot = survey.Newest.UTC()
	}
}

// maxTurnedAway is how often RunDue asks for the lease while another process has it and has not
// begun with the slot that is due.
const maxTurnedAway = 3

// RunDue runs what is due now, and returns when nothing is left to do: Run's work for a program
// that something else starts at the time of each slot, such as cron on several hosts. One of the
// calls runs the slot. The others return with that holder in Due.Leader, after three tries at the
// latest, or, when it has ended, with nothing to do; call RunSlot instead where they are to wait
// and take over. (While this very elector has the job's term, however it got it, RunDue waits.)
//
// The slots between the last one on record and the one that is due are treated by the policy, with
// CatchUpSkip as CatchUpLatest. A job without any record begins with the newest slot that has come,
// if it is within Policy.Grace. A host whose clock is ahead calls too early: wait until Due.Next,
// and call again.
//
// It returns what work returned for the last slot that it ran, the errors of leader.TryAcquire, and
// ErrSchedule. If the term is lost, it tries again as Run does.
func (s *Scheduler) RunDue(
	ctx context.Context, job string, schedule Schedule, policy Policy,
	work func(context.Context, *Slot) error,
) (Due, error) {
	if policy.CatchUp == CatchUpSkip {
		policy.CatchUp = CatchUpLatest
	}
	r, err := s.runner(job, schedule, policy, work)
	if err != nil {
		return Due{}, err
	}
	if err := r.anchor(ctx); err != nil {
		return Due{}, fmt.Errorf("schedule: slots of %q: %w", job, err)
	}
	if err := r.beginWithNewest(); err != nil {
		return Due{}, err
	}
	for turnedAway := 0; ; {
		ran, held, err := s.elector.TryRun(ctx, job, r.catchUp)
		r.found.Leader = held
		switch {
		case ran && ctx.Err() == nil && (errors.Is(err, leader.ErrLost) || errors.Is(err, errTermOver)):
			continue
		case err != nil || ran:
			return r.found, r.closing(ctx, err)
		case held.Holder != s.elector.Holder():
			open, err := r.open(ctx)
			if turnedAway++; err != nil || !open || turnedAway == maxTurnedAway {
				return r.found, r.closing(ctx, err)
			}
			// The leader may have looked for the last time just before the slot came.
		}
		if err := pgcall.Sleep(ctx, s.retryWait()); err != nil {
			return r.found, r.closing(ctx, err)
		}
	}
}

// beginWithNewest makes a job without slots on record begin with the newest slot that has come, or
// earlier if it was led before: this call is there for it, and so was one that died before it had
// begun with the slot.
func (r *runner) beginWithNewest() error {
	due, _, err := r.due(r.found.Now.Add(-r.policy.Grace).Add(-time.Microsecond), r.found.Now)
	if len(due) > 0 {
		r.since = earlier(r.since, due[len(due)-1].Add(-time.Microsecond))
	}
	return err
}

// catchUp runs what is due until nothing is. Its error is never the work's.
func (r *runner) catchUp(ctx context.Context, term *leader.Term) error {
	r.idle = time.Time{}
	for {
		wait, err := r.turn(ctx, term)
		if errors.Is(err, errNotLive) {
			err = pgcall.Sleep(ctx, r.retryWait())
		}
		switch {
		case term.Err() != nil && !errors.Is(err, errUnrecorded):
			return errTermOver
		case err != nil:
			return err
		case wait > 0:
			return nil // an error of work is left to closing
		case ctx.Err() != nil:
			return ctx.Err()
		}
	}
}

// open reports whether a slot has come of which nobody has a record yet.
func (r *runner) open(ctx context.Context) (bool, error) {
	survey, err := pgcall.AskAmongRivals(ctx, r.calls, r.survey)
	if err != nil {
		return false, fmt.Errorf("schedule: slots of %q: %w", r.job, err)
	}
	due, next, err := r.due(r.from(survey), survey.Now)
	r.found.saw(survey, next)
	if len(due) > 0 {
		r.found.Slot = due[len(due)-1]
	}
	return len(due) > 0, err
}

// closing is what RunDue returns with err: never less than what work returned.
func (r *runner) closing(ctx context.Context, err error) error {
	if r.unsettled != nil {
		end := *r.unsettled
		if settling := r.settle(context.WithoutCancel(ctx)); settling != nil {
			r.failure = end.err()
		}
	}
	if err == nil {
		return r.failure
	}
	return errors.Join(err, r.failure)
}

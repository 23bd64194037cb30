package leader

import (
	"context"
	"errors"
)

// Run leads the job for as long as ctx lasts: it campaigns, calls work when it is elected, and
// campaigns again when the term was lost. It returns when work returns by itself, with its error,
// or when ctx ends: with what work returned, or, if it was waiting, with ctx's error.
//
// The context of work ends with the cause ErrLost before a successor can lead, and when ctx ends.
// Work should then return soon. Until it does, Run goes on renewing the lease if it still holds it,
// and resigns only after work has returned: nobody else starts while this process may still be at
// work. (A query that ctx cancels gives ctx's error on pgx, and one of the server's, SQLSTATE
// 57014, on lib/pq.) What work returns after its term was lost is not returned, for the work is
// done again by the next leader. A panic in work ends the term and goes on up.
//
// Two calls of Run for one job never work at once, not even in one process. Run returns the same
// errors as Campaign.
func (e *Elector) Run(
	ctx context.Context, job string, work func(context.Context, *Term) error,
) error {
	if work == nil {
		return errNoWork
	}
	for {
		st, term, err := e.campaign(ctx, job)
		if err != nil {
			return err
		}
		lost, err := e.runTerm(ctx, st, term, work)
		if lost == nil || ctx.Err() != nil {
			return err
		}
	}
}

// runTerm works under a term, and gives up the term and the seat.
func (e *Elector) runTerm(
	ctx context.Context, st *seat, term *Term, work func(context.Context, *Term) error,
) (lost, err error) {
	defer e.seats.leave(st)
	return e.serve(ctx, st, term, work)
}

// serve works under a term, and resigns it. Lost says why the term was over before, if it was.
func (e *Elector) serve(
	ctx context.Context, st *seat, term *Term, work func(context.Context, *Term) error,
) (lost, err error) {
	e.seats.work(st)
	defer term.Resign() //nolint:errcheck // reported as an event, and the lease expires

	workCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(term.ctx, func() { cancel(context.Cause(term.ctx)) })
	defer stop()

	err = work(workCtx, term)
	if lost = term.Err(); errors.Is(context.Cause(term.ctx), errResigned) {
		lost = nil // by work itself
	}
	return lost, err
}

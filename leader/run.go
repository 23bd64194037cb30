package leader

import (
	"context"
	"errors"
)

// Run leads the job for as long as ctx lasts: it campaigns, calls work when it is elected, and campaigns again when the term was lost. It returns when
// work returns by itself, with its error, or when ctx ends: with what work returned, or, if it was waiting, with ctx's error.
//
// The context of work ends with the cause ErrLost before a successor can lead, and when ctx ends. Work should then return soon. Until it
// does, Run goes on renewing the lease if it still holds it, and resigns only after work has returned: nobody else starts while this
// process may still be at work. (A query that ctx cancels gives ctx's error on pgx, and one of the server's, SQLSTATE 57014,
// on lib/pq.) What work returns after its term was lost is not returned, for the work is done again by the next leader.
// A panic in work ends the term and goes on up.
//
// Two calls of Run for one job never work at once, not even in one process. Run returns the same errors as Campaign.
func (e *Elector) Run(ctx context.Context, job string, work func(context.Context, *Term) error) error {
	if work == nil {
		return errNoWork
	}
	for {
		again, err := e.lead(ctx, job, nil, work)
		if !again {
			return err
		}
	}
}

// lead leads for one term. It reports whether the term was lost, and the work is to be done again. Before each claim, and while
// somebody else leads, it asks wanted, if that is not nil, and gives the campaign up with wanted's error.
func (e *Elector) lead(ctx context.Context, job string, wanted func(context.Context) error, work func(context.Context, *Term) error) (again bool, err error) {
	s, term, err := e.campaign(ctx, job, wanted)
	if err != nil {
		return false, err
	}
	return e.serve(ctx, s, term, work)
}

// serve works under a term, and gives up the term and the seat.
func (e *Elector) serve(ctx context.Context, s *seat, term *Term, work func(context.Context, *Term) error) (again bool, err error) {
	e.mu.Lock()
	s.working = true
	s.notify()
	e.mu.Unlock()
	defer e.leave(s)
	defer term.Resign() //nolint:errcheck // reported as an event, and the lease expires

	workCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(term.ctx, func() { cancel(context.Cause(term.ctx)) })
	defer stop()

	err = work(workCtx, term)
	lost := errors.Is(term.check(), ErrLost) && !errors.Is(context.Cause(term.ctx), errResigned)
	return lost && ctx.Err() == nil, err
}

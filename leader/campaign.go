package leader

import (
	"context"
	"fmt"

	"github.com/pgleader/pgleader/internal/pgcall"
)

// Campaign waits until this process leads the job, and returns the new term. It returns earlier
// when ctx ends, with its error, and on errors that are Permanent; it waits out every other failure
// of the database. After the end of ctx that may take two seconds, for a lease that was granted
// meanwhile is given back.
//
// The term lives until it is lost or resigned; ctx bounds only the campaign. A term is returned to
// one caller alone: while another caller in this process leads the job, Campaign waits for the end
// of that term too.
func (e *Elector) Campaign(ctx context.Context, job string) (*Term, error) {
	st, term, err := e.campaign(ctx, job)
	if err != nil {
		return nil, err
	}
	e.seats.leave(st)
	return term, nil
}

// campaign is Campaign. It returns the seat as well, which the caller leaves.
func (e *Elector) campaign(ctx context.Context, job string) (*seat, *Term, error) {
	if err := CheckJob(job); err != nil {
		return nil, nil, err
	}
	c := candidacy{elector: e, job: job}
	defer c.end()
	for {
		st, term, err := c.attempt(ctx)
		if err != nil {
			return nil, nil, fmt.Errorf("leader: campaign for %q: %w", job, err)
		}
		if term != nil {
			return st, term, nil
		}
	}
}

// A candidacy is one call's wait for a job.
type candidacy struct {
	elector *Elector
	job     string
	waiter  *waiter // from the first lost claim on
	rival   int64   // the token of the term that was last reported as waited for
	failing bool    // since the last answer
}

func (c *candidacy) end() {
	if c.waiter != nil {
		c.elector.lookout.forget(c.waiter)
	}
}

// attempt waits for the seat and claims the job once. Without a term it returns when the lease
// looks free again.
func (c *candidacy) attempt(ctx context.Context) (*seat, *Term, error) {
	e := c.elector
	taken, err := e.seats.take(ctx, c.job, true)
	if err != nil {
		return nil, nil, err
	}
	st := taken.seat
	wakes := e.lookout.wakesSoFar()
	term, held, err := e.claimOrLeave(ctx, st, c.job)
	switch {
	case term != nil:
		return st, term, nil
	case err == nil:
		c.failing = false
		c.report(held)
		return nil, nil, c.wait(ctx, held, wakes)
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	case pgcall.Permanent(err):
		return nil, nil, err
	}
	if !c.failing {
		e.emit(Event{Kind: EventClaimFailed, Job: c.job, Holder: e.holder, Err: err})
	}
	c.failing = true
	return nil, nil, c.wait(ctx, Lease{}, wakes)
}

// claimOrLeave is claim. It leaves the seat unless it is elected, also if the user's OnEvent
// panics.
func (e *Elector) claimOrLeave(
	ctx context.Context, st *seat, job string,
) (term *Term, held Lease, err error) {
	defer func() {
		if term == nil {
			e.seats.leave(st)
		}
	}()
	return e.claim(ctx, st, job)
}

// wait waits until the lease looks free. Held is the lease as the last claim found it, and the zero
// Lease if that is not known.
func (c *candidacy) wait(ctx context.Context, held Lease, wakes uint64) error {
	e := c.elector
	if c.waiter == nil {
		c.waiter = e.lookout.await(c.job)
	}
	e.lookout.expect(c.waiter, e.standstills.freeIn(held), wakes)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case s := <-c.waiter.sightings:
			switch {
			case pgcall.Permanent(s.err):
				return s.err
			case s.err != nil:
				continue
			case !s.lease.Live() || s.stale || s.lease.Holder == e.holder:
				// A live lease of our own is one that was granted in an answer that got lost, or belongs to a
				// term given up here: the next claim settles it.
				return nil
			}
			c.report(s.lease)
		}
	}
}

// report says once for each term who leads instead.
func (c *candidacy) report(held Lease) {
	if held.Live() && held.Token != c.rival {
		c.rival = held.Token
		c.elector.emit(Event{
			Kind: EventWaiting, Job: c.job, Holder: held.Holder, Token: held.Token, Left: held.Left,
		})
	}
}

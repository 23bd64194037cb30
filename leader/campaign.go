package leader

import (
	"context"
	"fmt"
)

// campaign waits until this process leads the job, and returns the term with the seat, which the caller leaves. Before each claim it
// asks wanted, if that is not nil, and again and again while somebody else leads; it gives up with wanted's error.
func (e *Elector) campaign(ctx context.Context, job string, wanted func(context.Context) error) (*seat, *Term, error) {
	if err := CheckJob(job); err != nil {
		return nil, nil, err
	}
	c := candidacy{elector: e, job: job, wanted: wanted}
	defer c.end()
	for {
		if wanted != nil {
			if err := wanted(ctx); err != nil {
				return nil, nil, err
			}
		}
		s, err := c.take(ctx)
		if err != nil {
			return nil, nil, fmt.Errorf("leader: campaign for %q: %w", job, err)
		}
		c.woken = e.wakes()
		term, lease, err := e.attempt(ctx, s, job)
		if term != nil {
			return s, term, nil
		}
		if err == nil {
			err = c.lost(ctx, lease)
		} else {
			err = c.failed(ctx, err)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("leader: campaign for %q: %w", job, err)
		}
	}
}

// attempt claims the job, and leaves the seat unless it is elected, also if the user's OnEvent panics.
func (e *Elector) attempt(ctx context.Context, s *seat, job string) (term *Term, lease Lease, err error) {
	defer func() {
		if term == nil {
			e.leave(s)
		}
	}()
	return e.claim(ctx, s, job)
}

func (e *Elector) wakes() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.woken
}

// A candidacy is one call's wait for a job, from its first lost claim on.
type candidacy struct {
	elector *Elector
	job     string
	wanted  func(context.Context) error // or nil
	waiter  *waiter
	woken   uint64 // how often Wake had been called before the last claim
	rival   int64  // the token of the term that was last reported as waited for
	failing bool
}

func (c *candidacy) end() {
	if c.waiter != nil {
		c.elector.forget(c.waiter)
	}
}

// take waits for the job's seat.
func (c *candidacy) take(ctx context.Context) (*seat, error) {
	for {
		turn, cancel := ctx, context.CancelFunc(func() {})
		if c.wanted != nil {
			turn, cancel = context.WithTimeout(ctx, c.elector.retryWait())
		}
		s, _, err := c.elector.take(turn, c.job, true)
		cancel()
		if err == nil || ctx.Err() != nil {
			return s, err
		}
		if err := c.wanted(ctx); err != nil {
			return nil, err
		}
	}
}

// lost waits, after a claim that found the lease held, until the lease looks free.
func (c *candidacy) lost(ctx context.Context, held Lease) error {
	c.failing = false
	c.report(held)
	return c.wait(ctx, held)
}

// failed waits, after a claim that failed, until another look has succeeded.
func (c *candidacy) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if hopeless(err) {
		return err
	}
	if !c.failing {
		c.elector.emit(Event{Kind: ClaimFailed, Job: c.job, Holder: c.elector.holder, Err: err})
	}
	c.failing = true
	return c.wait(ctx, Lease{})
}

func (c *candidacy) wait(ctx context.Context, held Lease) error {
	e := c.elector
	if c.waiter == nil {
		c.waiter = e.await(c.job)
	}
	e.expect(c.waiter, e.freeIn(held), c.woken)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case n := <-c.waiter.news:
			if hopeless(n.err) {
				return n.err
			}
			if n.err != nil {
				continue
			}
			// A live lease of our own is one that was granted in an answer that got lost, or belongs to a term given up here:
			// the next claim settles it.
			if !n.lease.Live() || n.lease.Holder == e.holder || n.over {
				return nil
			}
			c.report(n.lease)
			if c.wanted != nil {
				if err := c.wanted(ctx); err != nil {
					return err
				}
			}
		}
	}
}

// report says once for each term who leads instead.
func (c *candidacy) report(held Lease) {
	if held.Live() && held.Token != c.rival {
		c.rival = held.Token
		c.elector.emit(Event{Kind: Waiting, Job: c.job, Holder: held.Holder, Token: held.Token})
	}
}

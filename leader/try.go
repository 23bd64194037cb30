package leader

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// TryAcquire asks once for the job's lease and reports whether this process leads the job. If this
// elector leads it already, it returns that same live term without asking the database, so a
// program may simply call it on every tick.
//
// Not to lead is not an error; the event EventSkipped says who does. It names this elector, without
// a token, while the work of a lost term has not returned.
//
// The term lives until it is lost or resigned; ctx bounds only the attempt. An attempt whose answer
// gets lost is made again, up to three times of TTL/3 each: give it a ctx with a deadline where
// that is too long. It may return up to two seconds after ctx has ended, for a lease that was
// granted meanwhile is given back. It returns ErrReadOnly, errors that are Permanent, or the
// database's error.
func (e *Elector) TryAcquire(ctx context.Context, job string) (*Term, bool, error) {
	taken, err := e.tryTake(ctx, job)
	switch {
	case err != nil:
		return nil, false, err
	case taken.who == occupied:
		return taken.term, true, nil
	case taken.who != vacant:
		return nil, false, nil
	}
	defer e.seats.leave(taken.seat) // also if the user's OnEvent panics
	term, _, err := e.try(ctx, taken.seat, job)
	return term, term != nil, err
}

// TryRun claims the job once. If this process is elected, it calls work under the term, resigns
// when work has returned, and returns ran with work's error. Else it says in held who leads the job
// instead: that may be this very elector, elsewhere in the process.
//
// The context of work ends as it does in Run. If the term is lost before work returns, the error is
// also ErrLost: another process may be doing the work again. Otherwise it returns the errors of
// TryAcquire. The event EventSkipped says who leads, unless this elector has a live term.
func (e *Elector) TryRun(
	ctx context.Context, job string, work func(context.Context, *Term) error,
) (ran bool, held Lease, err error) {
	if work == nil {
		return false, Lease{}, errNoWork
	}
	taken, err := e.tryTake(ctx, job)
	if err != nil {
		return false, Lease{}, err
	}
	if taken.who != vacant {
		return false, e.ownLease(job, taken), nil
	}
	defer e.seats.leave(taken.seat)
	term, held, err := e.try(ctx, taken.seat, job)
	if term == nil {
		return false, held, err
	}
	lost, err := e.serve(ctx, taken.seat, term, work)
	if lost != nil {
		err = errors.Join(lost, err)
	}
	return true, Lease{}, err
}

// tryTake takes the job's seat, or says who has it in this process.
func (e *Elector) tryTake(ctx context.Context, job string) (seating, error) {
	if err := CheckJob(job); err != nil {
		return seating{}, err
	}
	taken, err := e.seats.take(ctx, job, false)
	if err != nil {
		return taken, fmt.Errorf("leader: acquire %q: %w", job, err)
	}
	if taken.who == lingering {
		e.emit(Event{Kind: EventSkipped, Job: job, Holder: e.holder})
	}
	return taken, nil
}

// ownLease is the lease of a job that this process leads elsewhere, or has led and still works on.
func (e *Elector) ownLease(job string, taken seating) Lease {
	lease := Lease{Job: job, Holder: e.holder}
	if taken.who == occupied {
		lease.Token = taken.term.token
		lease.Left = time.Until(taken.term.Until())
	}
	return lease
}

// try asks once, by a look if the lease should be another's still. Without a term it says who
// leads.
func (e *Elector) try(ctx context.Context, st *seat, job string) (*Term, Lease, error) {
	if held, ok := e.stillHeld(ctx, st, job); ok {
		e.skip(st, held, job)
		return nil, held, nil
	}
	term, held, err := e.claim(ctx, st, job)
	if err != nil {
		return nil, Lease{}, fmt.Errorf("leader: acquire %q: %w", job, err)
	}
	if term == nil {
		e.skip(st, held, job)
	}
	return term, held, nil
}

// stillHeld looks at a lease that another process had a moment ago, and should have still. A
// program that asks on every tick is told so by a plain read, which costs the server a good deal
// less than a claim. Whatever else it sees is left to the claim.
func (e *Elector) stillHeld(ctx context.Context, st *seat, job string) (Lease, bool) {
	asked := time.Now()
	if !asked.Before(st.heldUntil) {
		return Lease{}, false
	}
	leases, err := e.lookout.read(ctx, []string{job})
	held := leases[job]
	rival := err == nil && held.Live() && held.Holder != e.holder
	return held, rival && !e.standstills.over(held, asked)
}

// skip reports that another holder leads, loudly once for each of its terms: a program that asks on
// every tick would fill its log.
func (e *Elector) skip(st *seat, held Lease, job string) {
	repeated := st.skipped == held.Token
	st.skipped, st.heldUntil = held.Token, time.Now().Add(held.Left)
	e.emit(Event{
		Kind: EventSkipped, Job: job, Holder: held.Holder, Token: held.Token, Left: held.Left,
		repeated: repeated,
	})
}

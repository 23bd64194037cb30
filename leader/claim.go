package leader

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/internal/pgcall"
)

const (
	maxClaims  = 3               // how often one claim asks when answers get lost or rivals interfere
	claimGrace = 1 * time.Second // how long it waits for an answer after its caller has gone
)

// claim asks for the job's lease on behalf of whoever has taken the seat. It returns the new term,
// or no term and the lease of whoever has it.
//
// Once it has asked it hears the answer out, for a while also when ctx has ended: a lease that was
// granted to nobody would keep the job without a leader for a whole TTL. For the same reason it
// asks again when an answer is lost.
func (e *Elector) claim(ctx context.Context, st *seat, job string) (*Term, Lease, error) {
	patient, cancel := pgcall.Outlast(ctx, min(e.callLimit, claimGrace))
	defer cancel()
	known := st.known // a call that is left behind may go on beside the next one
	var held Lease
	var failure error
	for range maxClaims {
		if ctx.Err() != nil && !mayBeGranted(failure) {
			return nil, Lease{}, ctx.Err()
		}
		answer, err := e.askForLease(patient, job, known)
		switch e.meaningOf(answer, err) {
		case claimGranted:
			term, err := e.install(ctx, st, job, answer.token, answer.sent)
			return term, answer.lease, err
		case claimHeld:
			held, failure = answer.lease, nil
			if !e.standstills.over(held, answer.sent.mono) {
				return nil, held, nil
			}
			if freed, err := e.freeStill(patient, held); err != nil || !freed {
				return nil, held, err
			}
		case claimOutlived:
			failure = errTrustEnded
		case claimStuck:
			held, failure = answer.lease, nil
		case claimCrossed:
			failure = fmt.Errorf("rivals at work: %w", err)
		case claimUnanswered:
			failure = err
		case claimRefused:
			return nil, Lease{}, err
		}
	}
	return nil, held, failure
}

// An answer is what one claim came back with.
type answer struct {
	sent     instant // when the statement left
	acquired bool
	token    int64
	lease    Lease // as it is now
}

func (e *Elector) askForLease(ctx context.Context, job string, known int64) (answer, error) {
	return pgcall.Ask(ctx, e.calls, func(ctx context.Context, q db.Querier) (answer, error) {
		sent := e.now() // after the wait for a connection, which must not eat into the trust window
		row, err := q.AcquireLease(ctx, db.AcquireLeaseParams{
			JobName:    job,
			Holder:     e.holder,
			KnownToken: known,
			TTLSeconds: e.ttl.Seconds(),
		})
		lease := leaseOf(db.LeaderLease{
			JobName:    row.JobName,
			Holder:     row.Holder,
			Token:      row.Token,
			AcquiredAt: row.AcquiredAt,
			RenewedAt:  row.RenewedAt,
			ExpiresAt:  row.ExpiresAt,
		}, row.TimeLeft)
		return answer{sent: sent, acquired: row.Acquired, token: row.Token, lease: lease}, err
	})
}

// A claimMeaning is what the answer to a claim means.
type claimMeaning int

const (
	claimGranted    claimMeaning = iota
	claimHeld                    // another process has the lease
	claimOutlived                // granted, but the trust is over: asking again extends the same term
	claimStuck                   // ours and free: after a wait, or under the guard of a term given up
	claimCrossed                 // a concurrent statement was in the way: ask again
	claimUnanswered              // it may have been granted: ask again
	claimRefused                 // the server says that it cannot be
)

// meaningOf says what the answer to a claim means, and does nothing about it.
func (e *Elector) meaningOf(a answer, err error) claimMeaning {
	switch {
	case errors.Is(err, sql.ErrNoRows), pgcall.Rivalry(err):
		return claimCrossed
	case err != nil && pgcall.Undecided(err):
		return claimUnanswered
	case err != nil:
		return claimRefused
	case a.acquired && e.trust(a.sent).reached(e.now()):
		return claimOutlived
	case a.acquired:
		return claimGranted
	case a.lease.Holder == e.holder && !a.lease.Live():
		return claimStuck
	}
	return claimHeld
}

// mayBeGranted reports whether a claim that failed so may have been granted all the same, and has
// not been heard out.
func mayBeGranted(failure error) bool {
	return failure != nil && pgcall.Undecided(failure) && !errors.Is(failure, pgcall.ErrUnanswered)
}

// install makes a granted lease this process's live term. If whoever asked has gone meanwhile, it
// gives the lease back.
func (e *Elector) install(
	ctx context.Context, st *seat, job string, token int64, sent instant,
) (*Term, error) {
	t := newTerm(ctx, e.watchdog, job, token, sent)
	st.known = token
	if ctx.Err() != nil {
		t.cancel(errResigned)
		err := t.release(time.Now().Add(min(e.callLimit, claimGrace)))
		if pgcall.Permanent(err) { // release has reported others
			t.reportUnreleased(err)
		}
		return nil, ctx.Err()
	}
	t.vacate = func() { e.seats.vacate(st, t) }
	// Before anything can report the term lost.
	e.emit(Event{Kind: EventElected, Job: job, Holder: e.holder, Token: token})
	e.watchdog.add(t)
	e.seats.occupy(st, t)
	e.renewal.follow(t)
	if err := t.Err(); err != nil { // paused since the answer, or OnEvent took its time
		return nil, err
	}
	return t, nil
}

// freeStill ends a lease that stands still, unless somebody has renewed it meanwhile, or has its
// row locked.
func (e *Elector) freeStill(ctx context.Context, l Lease) (freed bool, err error) {
	n, err := pgcall.Ask(ctx, e.calls, func(ctx context.Context, q db.Querier) (int64, error) {
		return q.FreeLease(ctx, db.FreeLeaseParams{
			JobName:   l.Job,
			Token:     l.Token,
			RenewedAt: l.RenewedAt,
		})
	})
	if err != nil {
		return false, fmt.Errorf(
			"end a lease that was last renewed at %s, before the database's clock was set back: %w",
			l.RenewedAt.UTC().Format(time.RFC3339), err)
	}
	if n == 0 {
		return false, nil
	}
	e.emit(Event{
		Kind: EventClockSetBack, Job: l.Job, Holder: l.Holder, Token: l.Token, Left: l.Left,
		Err: fmt.Errorf("leader: the lease was not renewed for %v: the database's clock was set back, "+
			"or a server was promoted whose clock is behind", l.granted(e.ttl).Round(time.Millisecond)),
	})
	return true, nil
}

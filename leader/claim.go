package leader

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/pgleader/pgleader/db"
)

const (
	maxClaims  = 3               // how often one claim asks when answers get lost or rivals interfere
	claimGrace = 1 * time.Second // how long it waits for an answer after its caller has gone
)

// claim asks for the job's lease on behalf of the seat's owner. It returns the new term, or no term and the lease of whoever
// has it.
//
// Once it has asked it hears the answer out, for a while also when ctx has ended: a lease that was granted to nobody would
// keep the job without a leader for a whole TTL. For the same reason it asks again when an answer is lost.
func (e *Elector) claim(ctx context.Context, s *seat, job string) (*Term, Lease, error) {
	e.mu.Lock()
	known := s.known // not later: a call that is abandoned may go on beside the next one
	e.mu.Unlock()
	patient, cancel := outlast(ctx, min(e.callLimit, claimGrace))
	defer cancel()
	var failure error
	var late Lease
	type granted struct {
		row  db.AcquireLeaseRow
		sent instant
	}
	for range maxClaims {
		if ctx.Err() != nil && (failure == nil || !undecided(failure) || errors.Is(failure, errUnanswered)) {
			return nil, Lease{}, ctx.Err()
		}
		answer, err := ask(patient, e, func(ctx context.Context, q db.Querier) (granted, error) {
			sent := e.now() // after the wait for a turn and a connection, which must not eat into the trust window
			row, err := q.AcquireLease(ctx, db.AcquireLeaseParams{
				JobName:    job,
				Holder:     e.holder,
				KnownToken: known,
				TTLSeconds: e.ttl.Seconds(),
			})
			return granted{row, sent}, err
		})
		row := answer.row
		switch {
		case err == nil && row.Acquired && answer.sent.add(e.ttl-e.margin).reached(e.now()):
			failure = errTrustEnded // the process was paused; asking again extends the lease under the same token
		case err == nil && !row.Acquired && row.Holder == e.holder && row.TimeLeft <= 0:
			// It waited for longer than the TTL; or the row is locked, by the guard of a term that we have given up.
			late, failure = leaseOf(leaseRow(row)), nil
		case err == nil && !row.Acquired:
			late, failure = leaseOf(leaseRow(row)), nil
			if !e.standsStill(s, late, answer.sent.mono) {
				return nil, late, nil
			}
			if freed, err := e.freeStill(patient, late); err != nil || !freed {
				return nil, late, err
			}
		case err == nil:
			term, err := e.install(ctx, s, job, row.Token, answer.sent)
			return term, leaseOf(leaseRow(row)), err
		case errors.Is(err, sql.ErrNoRows), rivalry(err):
			failure = fmt.Errorf("rivals at work: %w", err)
		case undecided(err):
			failure = err
		default:
			return nil, Lease{}, err
		}
	}
	return nil, late, failure
}

// outlast returns a context that ends a while after ctx.
func outlast(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(grace, cancel)
		context.AfterFunc(longer, func() { timer.Stop() })
	})
	return longer, func() { stop(); cancel() }
}

func leaseRow(row db.AcquireLeaseRow) db.LookLeasesRow {
	return db.LookLeasesRow{
		JobName:    row.JobName,
		Holder:     row.Holder,
		Token:      row.Token,
		AcquiredAt: row.AcquiredAt,
		RenewedAt:  row.RenewedAt,
		ExpiresAt:  row.ExpiresAt,
		TimeLeft:   row.TimeLeft,
	}
}

// install makes a granted lease this process's live term. If whoever asked has gone meanwhile, it gives the lease back.
func (e *Elector) install(ctx context.Context, s *seat, job string, token int64, sent instant) (*Term, error) {
	termCtx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	t := &Term{elector: e, seat: s, job: job, token: token, ctx: termCtx, cancel: cancel}
	t.trust = sent.add(e.ttl - e.margin)
	t.leaseEnd = time.Now().Add(e.ttl)
	if ctx.Err() != nil {
		e.mu.Lock()
		s.known = token
		e.mu.Unlock()
		cancel(errResigned)
		if err := t.release(time.Now().Add(min(e.callLimit, claimGrace))); err != nil {
			e.emit(Event{Kind: ResignFailed, Job: job, Holder: e.holder, Token: token, Err: err})
		}
		return nil, ctx.Err()
	}

	e.emit(Event{Kind: Elected, Job: job, Holder: e.holder, Token: token}) // before anything can report the term lost

	e.mu.Lock()
	s.known = token
	s.term = t
	s.notify()
	e.terms[t] = struct{}{}
	e.watch(t)
	switch {
	case !e.renewing:
		e.renewing = true
		go e.renewLoop()
	case e.renewDue(t).Before(e.renewAt):
		nudge(e.renewNudge)
	}
	e.mu.Unlock()
	if err := t.check(); err != nil { // paused since the answer, or OnEvent took its time
		return nil, err
	}
	return t, nil
}

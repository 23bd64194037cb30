package leader

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pgleader/pgleader/db"
)

// Term is one unbroken tenure of this process at the head of a job. It is renewed in the background until it is lost or resigned.
type Term struct {
	elector *Elector
	seat    *seat
	job     string
	token   int64
	ctx     context.Context
	cancel  context.CancelCauseFunc

	// Under elector.mu.
	trust    instant   // until when this process may take itself for the leader
	leaseEnd time.Time // when the lease is over in the database at the latest, if nothing renews it

	resigning sync.Mutex // held by Resign, so that a second call waits for the first
	released  bool       // under resigning
}

var (
	errResigned   = fmt.Errorf("leader: term resigned: %w", context.Canceled)
	errTrustEnded = fmt.Errorf("%w: no renewal succeeded in time", ErrLost)
	// Not errTaken, which spares Resign the release: under REPEATABLE READ the snapshot may be older than the term, and the lease alive.
	errUnseen = fmt.Errorf("%w: the guarded transaction does not see the lease row as ours (taken over, deleted, another database, "+
		"or a snapshot older than the term: begin the transaction after the election)", ErrLost)
	errTaken = fmt.Errorf("%w: the lease row is not ours any more (taken over, expired or deleted)", ErrLost)
)

// Context returns a context that ends with the term: with the cause ErrLost before a successor can lead, or when the term is resigned.
// Unguarded work must stop then; see context.Cause for the reason.
func (t *Term) Context() context.Context { return t.ctx }

// Job returns the name of the job.
func (t *Term) Job() string { return t.job }

// Token returns the fencing token of the term: greater than that of every earlier term of the job. Pass it along with
// whatever the work writes, and have the receiver refuse a smaller one than it has seen.
func (t *Term) Token() int64 { return t.token }

// Until returns when the term ends if no renewal succeeds any more, by the clocks of this process. Each renewal moves it. It is
// not in the future if the term is over.
func (t *Term) Until() time.Time {
	t.elector.mu.Lock()
	defer t.elector.mu.Unlock()
	if now := time.Now(); t.ctx.Err() != nil && t.trust.mono.After(now) {
		return now
	}
	return t.trust.mono
}

// Guard makes sure, for the rest of tx, that nobody else begins to lead the job: a takeover waits until tx has ended, while
// this term's renewals pass. Begin the transaction after the election, call Guard first in it, and roll back on an error.
//
// It returns ErrLost if the term is over, also if it ends while Guard waits, and otherwise the database's error. Under REPEATABLE
// READ and SERIALIZABLE that may be SQLSTATE 40001: begin the transaction again, and the guard in it tells whether the term
// is over. A transaction that does not see the lease row as this term's ends the term: one whose snapshot is older than the election, or of another
// database.
//
// With lib/pq it returns only when the network does: see Driver settings in docs/operations.md.
func (t *Term) Guard(ctx context.Context, tx *sql.Tx) error {
	if tx == nil {
		return errors.New("leader: guard: tx is nil, want an open transaction")
	}
	if err := t.check(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(t.ctx, func() { cancel(context.Cause(t.ctx)) })()
	_, err := db.New(tx).GuardLease(ctx, db.GuardLeaseParams{JobName: t.job, Holder: t.elector.holder, Token: t.token})
	if errors.Is(err, sql.ErrNoRows) {
		t.elector.end(t, errUnseen)
		return errUnseen
	}
	if lost := t.check(); lost != nil {
		return lost
	}
	if err != nil {
		return fmt.Errorf("leader: guard: %w", explain(err))
	}
	return nil
}

// check returns an error if the term is over, also if the timer that ends it has had no chance to run since, as after a pause of the process.
func (t *Term) check() error {
	if t.elector.expired(t) {
		t.elector.end(t, errTrustEnded)
	}
	if t.ctx.Err() == nil {
		return nil
	}
	if cause := context.Cause(t.ctx); errors.Is(cause, ErrLost) {
		return cause
	}
	return fmt.Errorf("%w: it was resigned", ErrLost)
}

// Resign gives the term up: it ends the term's context at once, then the lease in the database, so that a successor need not wait for its expiry.
// Call it when the work has stopped. It takes no context, for a cancelled one would leave the lease behind; it is bounded by the lease's own
// life, at most the TTL.
//
// When it returns nil the term holds nothing any more, also if it had been lost before. On an error the lease may live on until its TTL is over;
// calling again tries again.
func (t *Term) Resign() error {
	t.resigning.Lock()
	defer t.resigning.Unlock()
	e := t.elector
	ended := e.detach(t, errResigned)
	if t.released || errors.Is(context.Cause(t.ctx), errTaken) {
		return nil
	}
	e.mu.Lock()
	end := t.leaseEnd
	e.mu.Unlock()
	err := t.release(end)
	t.released = err == nil
	if ended {
		e.emit(Event{Kind: Resigned, Job: t.job, Holder: e.holder, Token: t.token, Err: err})
	}
	if err != nil {
		return fmt.Errorf("leader: resign %q: %w", t.job, err)
	}
	return nil
}

// release ends the lease in the database. It tries until end, by when the lease should be over by itself.
func (t *Term) release(end time.Time) error {
	e := t.elector
	var failure error
	for {
		left := time.Until(end)
		if left <= 0 {
			return failure
		}
		ctx, cancel := context.WithTimeout(context.Background(), min(left, e.callLimit))
		_, err := call(ctx, e.connect, nil, func(ctx context.Context, q db.Querier) (int64, error) {
			return q.ReleaseLease(ctx, db.ReleaseLeaseParams{JobName: t.job, Holder: e.holder, Token: t.token})
		})
		cancel()
		if err == nil || hopeless(err) {
			return err
		}
		if failure == nil {
			e.emit(Event{Kind: ResignFailed, Job: t.job, Holder: e.holder, Token: t.token, Err: err})
		}
		failure = err
		time.Sleep(min(e.retryPause, max(0, time.Until(end))))
	}
}

// detach ends a live term with the given cause, and reports whether it was live. Nothing in it waits: whoever learns first that a term
// is over ends it here, before any clean-up, whatever queries or other goroutines are doing.
func (e *Elector) detach(t *Term, cause error) bool {
	e.mu.Lock()
	_, live := e.terms[t]
	if live {
		delete(e.terms, t)
		t.seat.term = nil
		t.seat.notify()
		if len(e.terms) == 0 {
			nudge(e.renewNudge)
		}
	}
	t.cancel(cause) // under the lock, or another end's cause could come first
	e.mu.Unlock()
	return live
}

// end is detach for a term that was lost; it reports the loss once.
func (e *Elector) end(t *Term, cause error) { e.endAll([]*Term{t}, cause) }

// endAll ends every term before it reports the first: a report runs the user's code, which may take its time.
func (e *Elector) endAll(terms []*Term, cause error) {
	lost := terms[:0]
	for _, t := range terms {
		if e.detach(t, cause) {
			lost = append(lost, t)
		}
	}
	for _, t := range lost {
		e.emit(Event{Kind: Lost, Job: t.job, Holder: e.holder, Token: t.token, Err: cause})
	}
}

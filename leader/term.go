package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Term is one unbroken tenure of this process at the head of a job. It is renewed in the background
// until it is lost or resigned.
type Term struct {
	watchdog *watchdog
	job      string
	token    int64
	ctx      context.Context
	cancel   context.CancelCauseFunc
	vacate   func() // called once when a live term has ended

	// Under watchdog.mu.
	trust    instant   // until when this process may take itself for the leader
	leaseEnd time.Time // when the lease is over in the database at the latest, if nothing renews it

	resigning sync.Mutex // held by Resign, so that a second call waits for the first
	released  bool       // under resigning
}

// newTerm returns a term that is not live yet, for a claim that was sent at that instant.
func newTerm(ctx context.Context, w *watchdog, job string, token int64, sent instant) *Term {
	t := &Term{watchdog: w, job: job, token: token, trust: w.trust(sent)}
	t.leaseEnd = time.Now().Add(w.ttl)
	t.ctx, t.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	return t
}

// Context returns a context that ends with the term: with the cause ErrLost before a successor can
// lead, or when the term is resigned. Unguarded work must stop then; see context.Cause for the
// reason.
func (t *Term) Context() context.Context { return t.ctx }

// Err returns nil while this process may take itself for the leader, and else an ErrLost that says
// why the term is over. It is right at once also after a pause of the process, when the timer that
// ends the context has had no chance to run yet. It asks no database and waits for nothing.
func (t *Term) Err() error {
	if t.ctx.Err() == nil && t.watchdog.expired(t) {
		t.watchdog.lose(errTrustEnded, t)
	}
	if t.ctx.Err() == nil {
		return nil
	}
	if cause := context.Cause(t.ctx); errors.Is(cause, ErrLost) {
		return cause
	}
	return fmt.Errorf("%w: it was resigned", ErrLost)
}

// Job returns the name of the job.
func (t *Term) Job() string { return t.job }

// Token returns the fencing token of the term: greater than that of every earlier term of the job.
// Pass it along with whatever the work writes, and have the receiver refuse a smaller one than it
// has seen.
func (t *Term) Token() int64 { return t.token }

// Until returns when the term ends if no renewal succeeds any more, by the clocks of this process.
// Each renewal moves it. It is not in the future if the term is over.
func (t *Term) Until() time.Time {
	trust, _ := t.watchdog.trustOf(t)
	if now := time.Now(); t.ctx.Err() != nil && trust.mono.After(now) {
		return now
	}
	return trust.mono
}

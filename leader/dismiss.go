package leader

import (
	"context"
	"errors"
	"fmt"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/internal/pgcall"
)

// Dismiss takes the job away from whoever leads it, in this elector's name, and returns the lease
// as it was: for an operator whose leader is stuck, or should move. The old leader steps down at
// its next renewal, and no later than it would without any. Until its lease would have expired
// nobody leads the job, not even this elector; then every candidate may be elected, the old leader
// too if it still runs.
//
// It returns ErrNotLed if the lease is free. Of a job that was dismissed already it returns that
// lease, and changes nothing. While a guarded transaction of the leader's is open it waits, for
// TTL/3 at most. Where an answer gets lost it asks again, and spares whoever leads by then.
func (e *Elector) Dismiss(ctx context.Context, job string) (Lease, error) {
	if err := CheckJob(job); err != nil {
		return Lease{}, err
	}
	// Not e.holder: a candidate takes a lease of its own for one that was granted in a lost answer.
	as := e.holder + dismissedSuffix
	asked, unsure := Lease{}, false // the lease of the last try, and whether it may be dismissed
	for tries := 1; ; tries++ {
		leases, err := e.lookout.read(ctx, []string{job})
		held := leases[job]
		switch {
		case err != nil:
			return Lease{}, fmt.Errorf("leader: dismiss the leader of %q: %w", job, err)
		case unsure && held.Token != asked.Token, held.Holder == as && held.Token == asked.Token+1:
			return asked, nil // its term is over: by the lost answer, or else by itself
		case !held.Live():
			return Lease{}, fmt.Errorf("%w: %q", ErrNotLed, job)
		case held.Dismissed():
			return held, nil
		}
		asked = held
		n, err := pgcall.Ask(ctx, e.calls, func(ctx context.Context, q db.Querier) (int64, error) {
			return q.DismissLease(ctx, db.DismissLeaseParams{
				JobName:     job,
				DismissedBy: as,
				Token:       held.Token,
			})
		})
		lost := err != nil && pgcall.Undecided(err)
		unsure = unsure || lost
		switch {
		case n > 0:
			return held, nil
		case lost && tries < maxLostDismissals:
			// The next look tells.
		case (err == nil || pgcall.Rivalry(err)) && tries < maxDismissals:
			// Something came first.
		case err == nil:
			return Lease{}, fmt.Errorf("leader: dismiss the leader of %q: %w", job, errKept)
		default:
			return Lease{}, fmt.Errorf("leader: dismiss the leader of %q: %w", job, err)
		}
	}
}

const (
	maxDismissals     = 10 // how often Dismiss asks when others come first
	maxLostDismissals = 3  // and when answers get lost
)

var errKept = errors.New("its row does not change: look for a trigger or a row security policy " +
	"on leader_lease, and for a connection to a server that is behind")

package leader

import (
	"context"
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
// TTL/3 at most.
func (e *Elector) Dismiss(ctx context.Context, job string) (Lease, error) {
	if err := CheckJob(job); err != nil {
		return Lease{}, err
	}
	// Not e.holder: a candidate takes a lease of its own for one that was granted in a lost answer.
	as := e.holder + dismissedSuffix
	asked := Lease{}
	for tries := 1; ; tries++ {
		leases, err := e.lookout.read(ctx, []string{job})
		held := leases[job]
		switch {
		case err != nil:
			return Lease{}, fmt.Errorf("leader: dismiss the leader of %q: %w", job, err)
		case held.Holder == as && held.Token == asked.Token+1:
			return asked, nil // the answer was lost
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
		switch {
		case n > 0:
			return held, nil
		case pgcall.Rivalry(err), err != nil && pgcall.Undecided(err) && tries < maxDismissals:
			// Something came first, or the answer was lost: the next look tells.
		case err != nil:
			return Lease{}, fmt.Errorf("leader: dismiss the leader of %q: %w", job, err)
		}
	}
}

// maxDismissals is how often Dismiss asks when answers get lost.
const maxDismissals = 3

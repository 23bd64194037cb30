package leader

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/pgleader/pgleader/db"
)

// Dismiss takes the job away from whoever leads it, in this elector's name, and returns the lease as it was: for an operator whose leader
// is stuck, or should move. The old leader steps down at its next renewal, and no later than it would without any. Until its lease would have expired
// nobody leads the job, not even this elector; then every candidate may be elected, the old leader too if it still runs.
//
// It returns ErrNotLed if nobody leads the job. While a guarded transaction of the leader's is open it waits, for TTL/3 at most.
func (e *Elector) Dismiss(ctx context.Context, job string) (Lease, error) {
	if err := CheckJob(job); err != nil {
		return Lease{}, err
	}
	row, err := askAmongRivals(ctx, e, func(ctx context.Context, q db.Querier) (db.DismissLeaseRow, error) { // a renewal may come first
		// Not e.holder: a candidate takes a lease of its own for one that was granted in a lost answer.
		return q.DismissLease(ctx, db.DismissLeaseParams{JobName: job, DismissedBy: e.holder + dismissedSuffix})
	})
	if errors.Is(err, sql.ErrNoRows) {
		return Lease{}, fmt.Errorf("%w: %q", ErrNotLed, job)
	}
	if err != nil {
		return Lease{}, fmt.Errorf("leader: dismiss the leader of %q: %w", job, err)
	}
	return leaseOf(db.LookLeasesRow(row)), nil
}

// Rerun asks for another run of a slot that is decided, also of one that was missed: whoever leads the job by RunSchedule runs it within half
// a minute, and RunDue and RunSlot run it when they are called. Its attempts go on counting, and do not limit this run.
// If that run is cut off too, ask again.
//
// It returns ErrNoSlot for a slot that is not on record, or is running.
func (e *Elector) Rerun(ctx context.Context, job string, slot time.Time) error {
	if err := CheckJob(job); err != nil {
		return err
	}
	at, err := slotTime(slot)
	if err != nil {
		return err
	}
	n, err := askAmongRivals(ctx, e, func(ctx context.Context, q db.Querier) (int64, error) {
		return q.RequestSlot(ctx, db.RequestSlotParams{JobName: job, Slot: at, Error: "requested by " + e.holder})
	})
	if err != nil {
		return fmt.Errorf("leader: request %q slot %s: %w", job, at.Format(time.RFC3339Nano), err)
	}
	if n == 0 {
		return fmt.Errorf("%w: %q slot %s", ErrNoSlot, job, at.Format(time.RFC3339Nano))
	}
	return nil
}

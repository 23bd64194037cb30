package leader

import (
	"context"
	"fmt"
	"iter"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/internal/pgcall"
)

// Observe yields the job's lease as it is, and again whenever another look shows a change: a new
// leader, a resignation, an expiry. A renewal is no change. It looks as often as a waiting
// candidate does, so that a term that begins and ends between two looks is not seen.
//
// A failed look is yielded as an error, once for a row of them, and Observe goes on. It ends when
// the caller breaks off, and after an error when ctx ends, or that is Permanent.
func (e *Elector) Observe(ctx context.Context, job string) iter.Seq2[Lease, error] {
	return func(yield func(Lease, error) bool) {
		if err := CheckJob(job); err != nil {
			yield(Lease{}, err)
			return
		}
		w := e.lookout.await(job)
		defer e.lookout.forget(w)
		e.Wake(job)
		var last Lease
		first, failing := true, false
		for {
			var s sighting
			select {
			case <-ctx.Done():
				yield(Lease{}, fmt.Errorf("leader: observe %q: %w", job, ctx.Err()))
				return
			case s = <-w.sightings:
			}
			if s.err != nil {
				final := pgcall.Permanent(s.err)
				if (!failing || final) && !yield(Lease{}, s.err) || final {
					return
				}
				failing = true
				continue
			}
			failing = false
			if first || s.lease.Token != last.Token || s.lease.Live() != last.Live() {
				if !yield(s.lease, nil) {
					return
				}
			}
			first, last = false, s.lease
		}
	}
}

// Leases returns every lease in the database, by job name, also those of jobs that nobody leads
// now.
func (e *Elector) Leases(ctx context.Context) ([]Lease, error) {
	leases, err := pgcall.Ask(ctx, e.calls, func(ctx context.Context, q db.Querier) ([]Lease, error) {
		rows, err := q.ListLeases(ctx)
		leases := make([]Lease, len(rows))
		for i, row := range rows {
			leases[i] = leaseOf(row.LeaderLease, row.TimeLeft)
		}
		return leases, err
	})
	if err != nil {
		return nil, fmt.Errorf("leader: list leases: %w", err)
	}
	return leases, nil
}

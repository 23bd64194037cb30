package leader

import (
	"context"
	"fmt"
	"iter"
)

// Observe yields the job's lease as it is, and again whenever another look shows a change: a new leader, a resignation, an
// expiry. A renewal is no change. It looks as often as a waiting candidate does, so that a term that begins and ends between two
// looks is not seen.
//
// A failed look is yielded as an error, once for a row of them, and Observe goes on. It ends when the caller breaks off, and after
// an error when ctx ends, on ErrJobName and ErrNotMigrated, and for missing rights.
func (e *Elector) Observe(ctx context.Context, job string) iter.Seq2[Lease, error] {
	return func(yield func(Lease, error) bool) {
		if err := CheckJob(job); err != nil {
			yield(Lease{}, err)
			return
		}
		w := e.await(job)
		defer e.forget(w)
		e.Wake(job)
		var last Lease
		first, failing := true, false
		for {
			var n news
			select {
			case <-ctx.Done():
				yield(Lease{}, fmt.Errorf("leader: observe %q: %w", job, ctx.Err()))
				return
			case n = <-w.news:
			}
			if n.err != nil {
				last := hopeless(n.err)
				if (!failing || last) && !yield(Lease{}, n.err) || last {
					return
				}
				failing = true
				continue
			}
			failing = false
			if first || n.lease.Token != last.Token || n.lease.Live() != last.Live() {
				if !yield(n.lease, nil) {
					return
				}
			}
			first, last = false, n.lease
		}
	}
}

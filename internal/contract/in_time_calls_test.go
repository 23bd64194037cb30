package contract_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

// Whatever is called on a frozen path returns: when its context ends, or when one call has had its
// time.
func TestCallsOnAFrozenPathReturnInTime(t *testing.T) {
	t.Parallel()
	const (
		callLimit = frozenTTL / 3
		short     = 200 * time.Millisecond
		slack     = 1 * time.Second // of a busy machine
	)
	calls := []struct {
		name    string
		bounded bool // by a context
		limit   time.Duration
		call    func(context.Context, *leader.Elector, *leader.Term) error
	}{
		{"TryAcquire", false, frozenTTL, tryAcquire},
		{"TryAcquire with a deadline", true, short + callLimit, tryAcquire}, // it hears a late answer out
		{"Campaign with a deadline", true, short + callLimit, campaignOnce},
		{"Run with a deadline", true, short + callLimit, runOnce},
		{"Leases", false, callLimit, listLeases},
		{"Leases with a deadline", true, short, listLeases},
		{"Observe", false, 2 * callLimit, observe},
		{"Observe with a deadline", true, short, observe},
		{"Resign", false, frozenTTL, resignOnce},
	}
	withEachDriver(t, func(t *testing.T, driver, url string) {
		together(t, len(calls), func(i int) string { return calls[i].name }, func(t *testing.T, i int) {
			c := calls[i]
			proxy := pgtest.NewProxy(t, url)
			e := frozenElector(t, driver, proxy.URL)
			term := receive(t, "election", campaigning(t, e, c.name))
			proxy.Freeze()
			ctx := t.Context()
			if c.bounded {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, short)
				defer cancel()
			}
			begun := time.Now()
			returned := make(chan error, 1)
			go func() { returned <- c.call(ctx, e, term) }()
			if c.name == "Resign" {
				within(t, slack, "end of the term's context", term.Context().Done())
			}
			err := receive(t, c.name, returned)
			if took := time.Since(begun); took > c.limit+slack {
				t.Errorf("returned after %v, want %v", took, c.limit)
			}
			switch {
			case err == nil:
				t.Error("no error")
			case c.bounded && !errors.Is(err, context.DeadlineExceeded):
				t.Errorf("error %v, want that of the context", err)
			}
		})
	})
}

func tryAcquire(ctx context.Context, e *leader.Elector, _ *leader.Term) error {
	_, _, err := e.TryAcquire(ctx, "another job")
	return err
}

func campaignOnce(ctx context.Context, e *leader.Elector, _ *leader.Term) error {
	_, err := e.Campaign(ctx, "another job")
	return err
}

func runOnce(ctx context.Context, e *leader.Elector, _ *leader.Term) error {
	return e.Run(ctx, "another job", func(context.Context, *leader.Term) error {
		return errors.New("elected")
	})
}

func listLeases(ctx context.Context, e *leader.Elector, _ *leader.Term) error {
	_, err := e.Leases(ctx)
	return err
}

func observe(ctx context.Context, e *leader.Elector, _ *leader.Term) error {
	for _, err := range e.Observe(ctx, "another job") {
		return err
	}
	return nil
}

func resignOnce(_ context.Context, _ *leader.Elector, term *leader.Term) error {
	return term.Resign()
}

// Guard uses the caller's transaction, and so the caller's driver: over lib/pq it returns only when
// the connection ends. The term's context does not wait for it.
func TestTermEndsInTimeWhileItsGuardHangs(t *testing.T) {
	t.Parallel()
	withEachDriver(t, func(t *testing.T, driver, url string) {
		const job = "nightly-report"
		j := keepJournal(t, url)
		proxy := pgtest.NewProxy(t, url)
		pool := pgtest.Open(t, driver, proxy.URL)
		term := receive(t, "election", campaigning(t, newElector(t, pool, frozenConfig), job))
		held := follow(term)
		tx, err := pool.Begin()
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		proxy.Freeze()
		guarded := make(chan error, 1)
		go func() { guarded <- term.Guard(t.Context(), tx) }()
		j.check(t, receive(t, "end of the term", held))
		if driver == "postgres" {
			proxy.Cut()
		}
		if err := receive(t, "Guard", guarded); err == nil {
			t.Error("Guard on a frozen path returned no error")
		}
	})
}

package contract_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

func TestRunsOfOneJobNeverWorkAtOnceInOneProcess(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		var atWork, turns atomic.Int64
		done, cancel := context.WithCancel(t.Context())
		defer cancel()
		var wg sync.WaitGroup
		for range 3 {
			e := newElector(t, pool, quick)
			for range 3 {
				wg.Go(func() {
					for done.Err() == nil {
						err := e.Run(done, job, func(ctx context.Context, _ *leader.Term) error {
							if n := atWork.Add(1); n != 1 {
								t.Errorf("%d at work at once", n)
							}
							defer atWork.Add(-1)
							_, err := pool.ExecContext(ctx, `SELECT pg_sleep(0.002)`)
							if turns.Add(1) >= 60 {
								cancel()
							}
							return err
						})
						if err != nil && done.Err() == nil {
							t.Errorf("Run: %v", err)
						}
					}
				})
			}
		}
		wg.Wait()
	})
}

// The work of a lost term may go on for a while. Nobody else in this process may start meanwhile,
// not even by TryAcquire.
func TestNothingStartsInThisProcessBesideWorkThatOutlivesItsTerm(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool, admin := openPair(t, driver, url)
		e := newElector(t, pool, quick)
		ctx, cancel := context.WithCancel(t.Context())
		var atWork atomic.Int64
		started, stubborn := make(chan *leader.Term, 10), make(chan struct{})
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				_ = e.Run(ctx, job, func(ctx context.Context, term *leader.Term) error {
					if n := atWork.Add(1); n != 1 {
						t.Errorf("%d at work at once", n)
					}
					defer atWork.Add(-1)
					started <- term
					if term.Token() == 1 {
						<-stubborn
						return nil
					}
					<-ctx.Done()
					return nil
				})
			})
		}
		first := receive(t, "the first start", started)
		expire(t, admin, job)
		endsWithLoss(t, first)
		for range 20 {
			refused(t, e, job)
		}
		close(stubborn)
		if second := receive(t, "the second start", started); second.Token() != 2 {
			t.Errorf("token %d, want 2", second.Token())
		}
		cancel()
		wg.Wait()
	})
}

func TestRunKeepsLeaseUntilWorkReturns(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool, admin := openPair(t, driver, url)
		ctx, cancel := context.WithCancel(t.Context())
		started, release, ended := make(chan *leader.Term, 1), make(chan struct{}), make(chan error, 1)
		e := newElector(t, pool, quick)
		go func() {
			ended <- e.Run(ctx, job, func(_ context.Context, term *leader.Term) error {
				started <- term
				<-release // ignores its context
				return nil
			})
		}()
		term := receive(t, "the start", started)
		cancel()
		successor := newElector(t, pool, quick)
		eventuallyRenewed(t, admin, job, 5)
		refused(t, successor, job)
		stillLeads(t, term)
		close(release)
		_ = receive(t, "the end of Run", ended)
		acquire(t, successor, job) // at once: Run has resigned when it returns
	})
}

func TestPanicInWorkEndsTermAndGoesOnUp(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		e := newElector(t, pool, quick)
		var term *leader.Term
		func() {
			defer func() {
				if r := recover(); r != "broken work" {
					t.Errorf("recovered %v", r)
				}
			}()
			_ = e.Run(t.Context(), job, func(_ context.Context, lead *leader.Term) error {
				term = lead
				panic("broken work")
			})
		}()
		if term.Context().Err() == nil {
			t.Error("the term goes on after a panic")
		}
		acquire(t, newElector(t, pool, quick), job) // the lease is free, not renewed for ever
	})
}

func TestRunReturnsWhatWorkReturns(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		e := newElector(t, pool, quick)
		failure := errors.New("no paper")
		for _, want := range []error{nil, failure} {
			work := func(context.Context, *leader.Term) error { return want }
			if err := e.Run(t.Context(), job, work); !errors.Is(err, want) {
				t.Errorf("Run = %v, want %v", err, want)
			}
		}
		acquire(t, newElector(t, pool, quick), job)
	})
}

func TestRunStartsAndStopsWorkInPairsAndNeverForFollowers(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool, admin := openPair(t, driver, url)
		term := acquire(t, newElector(t, pool, slow), job)
		var seen events
		cfg := quick
		cfg.OnEvent = seen.add
		follower := newElector(t, pool, cfg)
		var starts, stops atomic.Int64
		work := func(ctx context.Context, _ *leader.Term) error {
			starts.Add(1)
			defer stops.Add(1)
			<-ctx.Done()
			return context.Cause(ctx)
		}
		run := func(ctx context.Context) <-chan error {
			ended := make(chan error, 1)
			go func() { ended <- follower.Run(ctx, job, work) }()
			return ended
		}

		ctx, cancel := context.WithCancel(t.Context())
		ended := run(ctx)
		eventually(t, "the follower waits", func() bool { return len(seen.of(leader.EventWaiting)) == 1 })
		cancel()
		if err := receive(t, "the end of Run", ended); !errors.Is(err, context.Canceled) {
			t.Errorf("Run of a cancelled follower = %v, want context.Canceled", err)
		}
		reports := func(elected, lost, resigned int) {
			t.Helper()
			e, l, r := seen.of(leader.EventElected), seen.of(leader.EventLost), seen.of(leader.EventResigned)
			if len(e) != elected || len(l) != lost || len(r) != resigned {
				t.Errorf("%d elections, %d losses, %d resignations; want %d, %d, %d",
					len(e), len(l), len(r), elected, lost, resigned)
			}
		}
		if starts.Load() != 0 {
			t.Error("the work of a follower has started")
		}
		reports(0, 0, 0)

		resign(t, term)
		ctx, cancel = context.WithCancel(t.Context())
		ended = run(ctx)
		for n := range 5 {
			eventually(t, "the work starts", func() bool { return starts.Load() == int64(n+1) })
			expire(t, admin, job)
			eventually(t, "the work stops", func() bool { return stops.Load() == int64(n+1) })
		}
		eventually(t, "the work starts", func() bool { return starts.Load() == 6 })
		cancel()
		_ = receive(t, "the end of Run", ended)
		if starts.Load() != 6 || stops.Load() != 6 {
			t.Errorf("%d starts, %d stops", starts.Load(), stops.Load())
		}
		reports(6, 5, 1)
	})
}

func TestTryAcquireOnEveryTickKeepsOneTerm(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool, admin := openPair(t, driver, url)
		e := newElector(t, pool, leader.Config{TTL: 3 * time.Second, RenewEvery: 100 * time.Millisecond})
		first := acquire(t, e, job)
		// Until the lease would be over if nothing had renewed it.
		eventually(t, "a TTL passes", func() bool {
			if term := acquire(t, e, job); term != first {
				t.Fatalf("TryAcquire returned another term, of token %d", term.Token())
			}
			return scan[bool](t, admin, `SELECT clock_timestamp() > acquired_at + interval '3.5 s'
				FROM leader_lease WHERE job_name = $1`, job)
		})
		stillLeads(t, first)
	})
}

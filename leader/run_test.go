package leader

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/internal/pgfake"
)

var errWork = errors.New("work failed")

func TestRunReturnsWhatWorkReturns(t *testing.T) {
	for name, want := range map[string]error{"nil": nil, "error": errWork} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				p := start(t, tb, Config{})
				runs := 0
				err := p.Run(t.Context(), "report", func(ctx context.Context, term *Term) error {
					runs++
					time.Sleep(time.Minute)
					if ctx.Err() != nil || term.Job() != "report" || term.Token() != 1 {
						t.Errorf("context %v, term of %q with token %d", ctx.Err(), term.Job(), term.Token())
					}
					return want
				})
				if !errors.Is(err, want) || runs != 1 {
					t.Errorf("Run = %v after %d runs, want %v after 1", err, runs, want)
				}
				if tb.Live("report") {
					t.Error("the lease was not released")
				}
			})
		})
	}
}

func TestTwoRunsOfOneProcessNeverWorkAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, Config{})
		var working, runs atomic.Int32
		work := func(ctx context.Context, _ *Term) error {
			if working.Add(1) > 1 {
				t.Error("two runs work at once")
			}
			defer working.Add(-1)
			runs.Add(1)
			<-ctx.Done()
			time.Sleep(30 * time.Second) // longer than the rival leads
			return nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { _ = p.Run(ctx, "report", work) })
		}
		for range 5 { // the term is lost, and the job free, while the work goes on
			time.Sleep(time.Minute)
			tb.Put("report", "rival", 10*time.Second)
		}
		all.Wait()
		if n := runs.Load(); n < 6 {
			t.Errorf("%d runs, want one more than losses", n)
		}
	})
}

func TestTryAcquireGetsNoTermBesideWorkThatOutlivesItsTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, Config{})
		terms := make(chan *Term, 2)
		done := make(chan error)
		finish := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			done <- p.Run(ctx, "report", func(_ context.Context, term *Term) error {
				terms <- term
				<-finish
				return nil
			})
		}()
		term := <-terms
		if again := p.mustLead(t, "report"); again != term {
			t.Error("TryAcquire did not return the term that Run has")
		}
		tb.Put("report", "rival", time.Second)
		<-term.Context().Done()
		time.Sleep(time.Minute)
		began := time.Now()
		if _, ok, err := p.TryAcquire(t.Context(), "report"); ok || err != nil {
			t.Errorf("TryAcquire = %v, %v while the work of the lost term goes on", ok, err)
		}
		after(t, began, 0, "returned")
		if n := len(p.reported(EventSkipped)); n != 1 {
			t.Errorf("%d skips reported, want 1", n)
		}
		cancel()
		close(finish)
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
		mustResign(t, p.mustLead(t, "report"))
	})
}

func TestWorkStopsBeforeASuccessorLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		a, b := start(t, tb, Config{}), start(t, tb, Config{})
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan time.Time, 1)
		done := make(chan error)
		go func() {
			done <- a.Run(ctx, "report", func(ctx context.Context, _ *Term) error {
				<-ctx.Done()
				if !errors.Is(context.Cause(ctx), ErrLost) {
					t.Errorf("the cause is %v, want ErrLost", context.Cause(ctx))
				}
				stopped <- time.Now()
				return ctx.Err()
			})
		}()
		time.Sleep(7 * time.Second)
		a.path.Suffer(pgfake.Always(pgfake.Trouble{Hangs: true}))
		term, err := b.Campaign(t.Context(), "report")
		if err != nil {
			t.Fatal(err)
		}
		if lead := time.Since(<-stopped); lead < a.margin {
			t.Errorf("a successor led %v after the work's context ended, want %v at least", lead, a.margin)
		}
		cancel()
		a.path.Unhang()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run = %v, want context.Canceled", err)
		}
		mustResign(t, term)
	})
}

// kuberhealthy#1533: one failed renewal, and never a leader again.
func TestRunLeadsAgainAfterEachOfAHundredLosses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, Config{})
		const losses = 100
		runs := 0
		last := int64(0)
		began := time.Now()
		err := p.Run(t.Context(), "report", func(ctx context.Context, term *Term) error {
			if term.Token() <= last {
				t.Errorf("token %d follows %d", term.Token(), last)
			}
			last = term.Token()
			if runs++; runs > losses {
				return errWork
			}
			if runs%2 == 0 {
				tb.Put("report", "rival", time.Second)
			} else {
				p.path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
					if ctx.Err() == nil && s.Renews() {
						return pgfake.Trouble{Fails: pgfake.ErrReset}
					}
					return pgfake.Trouble{}
				})
			}
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, errWork) || runs != losses+1 {
			t.Errorf("Run = %v after %d runs, want %v after %d", err, runs, errWork, losses+1)
		}
		within(t, began, losses*p.ttl, "it has led after each loss")
		synctest.Wait() // for the last report
		if n := len(p.reported(EventLost)); n != losses {
			t.Errorf("%d losses reported, want %d", n, losses)
		}
	})
}

func TestWorkThatReturnsAfterALossIsDoneAgain(t *testing.T) {
	for name, result := range map[string]error{"nil": nil, "error": errWork} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				p := start(t, tb, Config{})
				runs := 0
				err := p.Run(t.Context(), "report", func(ctx context.Context, _ *Term) error {
					if runs++; runs == 1 {
						tb.Put("report", "rival", 10*time.Second)
						<-ctx.Done()
						return result
					}
					return nil
				})
				if err != nil || runs != 2 {
					t.Errorf("Run = %v after %d runs, want nil after 2", err, runs)
				}
			})
		})
	}
}

// kubernetes#139991: the lease was released while the callback still ran.
func TestLeaseIsHeldUntilWorkThatIgnoresItsContextReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, Config{})
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		err := p.Run(ctx, "report", func(workCtx context.Context, term *Term) error {
			cancel()
			if workCtx.Err() == nil {
				t.Error("the work's context outlives Run's")
			}
			for range 60 {
				time.Sleep(time.Minute)
				if !tb.Live("report") || tb.Row("report").Token != term.Token() || term.Context().Err() != nil {
					t.Fatalf("the lease was given up during the work: %+v", tb.Row("report"))
				}
			}
			return errWork
		})
		if !errors.Is(err, errWork) {
			t.Errorf("Run = %v, want %v", err, errWork)
		}
		after(t, began, time.Hour, "returned")
		if tb.Live("report") {
			t.Error("the lease was not released after the work")
		}
	})
}

// kubernetes-client/python#2670: the callback died, and the lease was renewed for ever.
func TestPanicInWorkEndsTheTermAndGoesOnUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, Config{})
		var term *Term
		func() {
			defer func() {
				if v := recover(); v != "boom" {
					t.Errorf("recovered %v, want boom", v)
				}
			}()
			_ = p.Run(t.Context(), "report", func(_ context.Context, got *Term) error {
				term = got
				panic("boom")
			})
			t.Error("Run returned")
		}()
		if term.Context().Err() == nil || tb.Live("report") {
			t.Error("the term was not ended and released")
		}
		mustResign(t, p.mustLead(t, "report"))
	})
}

func TestGoexitInWorkEndsTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, Config{})
		var all sync.WaitGroup
		all.Go(func() {
			_ = p.Run(t.Context(), "report", func(context.Context, *Term) error {
				runtime.Goexit() // what t.FailNow does
				return nil
			})
			t.Error("Run returned")
		})
		all.Wait()
		if tb.Live("report") {
			t.Error("the lease was not released")
		}
		mustResign(t, p.mustLead(t, "report"))
	})
}

func TestRunEndsWhenItsWorkResigns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, Config{})
		runs := 0
		err := p.Run(t.Context(), "report", func(ctx context.Context, term *Term) error {
			runs++
			mustResign(t, term)
			synctest.Wait()
			if ctx.Err() == nil {
				t.Error("the work's context outlives the term")
			}
			return errWork
		})
		if !errors.Is(err, errWork) || runs != 1 {
			t.Errorf("Run = %v after %d runs, want %v after 1", err, runs, errWork)
		}
	})
}

func TestRunThatIsCalledOffAfterALossDoesNotLeadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, Config{})
		ctx, cancel := context.WithCancel(t.Context())
		runs := 0
		err := p.Run(ctx, "report", func(ctx context.Context, _ *Term) error {
			runs++
			tb.Put("report", "rival", time.Second)
			<-ctx.Done()
			cancel()
			return errWork
		})
		if !errors.Is(err, errWork) || runs != 1 {
			t.Errorf("Run = %v after %d runs, want %v after 1", err, runs, errWork)
		}
	})
}

// oban#1488 and river#342: what one job does must not touch another.
func TestJobsOfOneProcessAreLedApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, Config{})
		tb.Put("b", "rival", time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour/2)
		defer cancel()
		var ran sync.Map
		var all sync.WaitGroup
		for _, job := range []string{"a", "b", "c"} {
			all.Go(func() {
				_ = p.Run(ctx, job, func(ctx context.Context, term *Term) error {
					ran.Store(term.Job(), true)
					<-ctx.Done()
					return nil
				})
			})
		}
		all.Wait()
		for job, want := range map[string]bool{"a": true, "b": false, "c": true} {
			if _, got := ran.Load(job); got != want {
				t.Errorf("%q ran: %v, want %v", job, got, want)
			}
		}
	})
}

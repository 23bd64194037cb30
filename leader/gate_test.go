package leader

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/internal/pgcall"
	"github.com/pgleader/pgleader/internal/pgfake"
)

// hangForEver makes every statement hang, and returns a function that lets new ones pass. Those
// that hang stay.
func (p *process) hangForEver() (back func()) {
	p.path.Suffer(pgfake.Always(pgfake.Trouble{Hangs: true}))
	return func() { p.path.Suffer(nil) }
}

// The bounds of package pgcall.
const (
	maxAtOnce   = 8
	maxKeptFree = 4
	maxInterval = time.Minute
)

// An outage of an hour may cost the calls that are let go at first. Then there are ever fewer, down
// to one a minute.
const keptInAnHour = maxAtOnce + maxKeptFree + 60 + 6

func TestKeptCallsAreBoundedOverALongOutage(t *testing.T) {
	for name, jobs := range map[string][]string{
		"one candidate":   {"report"},
		"many candidates": jobNames(100),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				p := start(t, tb, Config{})
				back := p.hangForEver()
				ctx, cancel := context.WithCancel(t.Context())
				led := make(chan time.Time, len(jobs))
				var all sync.WaitGroup
				for _, job := range jobs {
					all.Go(func() {
						if term, err := p.Campaign(ctx, job); err == nil {
							led <- time.Now()
							mustResign(t, term)
						}
					})
				}
				time.Sleep(time.Hour)
				if kept := p.path.Kept(); kept > keptInAnHour {
					t.Errorf("the driver keeps %d calls after an hour, want at most %d", kept, keptInAnHour)
				}
				back()
				began := time.Now()
				for range jobs {
					at := <-led
					if wait := at.Sub(began); wait > maxInterval+2*p.retryEvery+p.callLimit {
						t.Errorf("elected %v after the path was back, want within about %v", wait, maxInterval)
					}
				}
				cancel()
				all.Wait()
			})
		})
	}
}

func TestTickingProcessKeepsFewCallsOverALongOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, pgfake.NewTable(), Config{})
		back := p.hangForEver()
		for began := time.Now(); time.Since(began) < time.Hour; time.Sleep(time.Second) {
			if _, ok, err := p.TryAcquire(t.Context(), "report"); ok || err == nil {
				t.Fatal("a database that does not answer grants a lease")
			}
		}
		if kept := p.path.Kept(); kept > keptInAnHour {
			t.Errorf("the driver keeps %d calls after an hour, want at most %d", kept, keptInAnHour)
		}
		back()
		began := time.Now()
		for {
			term, ok, _ := p.TryAcquire(t.Context(), "report")
			if ok {
				mustResign(t, term)
				break
			}
			time.Sleep(time.Second)
		}
		within(t, began, maxInterval+time.Second, "elected")
	})
}

func TestLeaderThatIsCutOffLeadsAgainSoonAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, Config{})
		ctx, cancel := context.WithCancel(t.Context())
		elected := make(chan time.Time, 10)
		done := make(chan error)
		go func() {
			done <- p.Run(ctx, "report", func(ctx context.Context, _ *Term) error {
				elected <- time.Now()
				<-ctx.Done()
				return nil
			})
		}()
		<-elected
		time.Sleep(time.Minute)
		for range 5 {
			back := p.hangForEver()
			before := p.path.Kept()
			time.Sleep(20 * time.Minute)
			if kept := p.path.Kept() - before; kept > keptInAnHour/2 {
				t.Errorf("the driver keeps %d calls of an outage of 20 minutes, want at most %d",
					kept, keptInAnHour/2)
			}
			back()
			began := time.Now()
			at := <-elected
			if wait := at.Sub(began); wait > maxInterval+2*p.retryEvery {
				t.Errorf("elected %v after the path was back", wait)
			}
			time.Sleep(time.Minute)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
}

// Calls that still hang from an outage that is over must not hinder others.
func TestAnswerOpensTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		tb.Put("report", "rival", 24*time.Hour)
		p := start(t, tb, Config{})
		defer p.wait(t, "report")()
		back := p.hangForEver()
		time.Sleep(time.Hour)
		back()
		time.Sleep(2 * maxInterval)
		began := time.Now()
		time.Sleep(time.Minute)
		if n, want := len(p.path.Asked(began)), int(time.Minute/(p.retryEvery*5/4)); n < want {
			t.Errorf("%d looks in a minute after the outage, want %d", n, want)
		}
		p.path.Suffer(pgfake.Only(pgfake.KindAcquire, pgfake.Trouble{Slow: time.Second}))
		var all sync.WaitGroup
		for _, job := range jobNames(maxAtOnce - 1) {
			all.Go(func() {
				if term, ok, err := p.TryAcquire(t.Context(), job); ok {
					mustResign(t, term)
				} else {
					t.Errorf("TryAcquire = %v, %v after the outage", ok, err)
				}
			})
		}
		all.Wait()
	})
}

// Refused connections are no proof that the path is back: behind a broken balancer some calls fail
// and others hang.
func TestFailuresOfTheNetworkDoNotOpenTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, pgfake.NewTable(), Config{})
		p.path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
			if s.Nth%2 == 0 {
				return pgfake.Trouble{Fails: pgfake.ErrReset}
			}
			return pgfake.Trouble{Hangs: true}
		})
		stop := p.wait(t, "report")
		time.Sleep(time.Hour)
		if kept := p.path.Kept(); kept > keptInAnHour {
			t.Errorf("the driver keeps %d calls after an hour, want at most %d", kept, keptInAnHour)
		}
		p.path.Suffer(nil)
		time.Sleep(2 * maxInterval)
		stop()
	})
}

func TestCallerBehindAClosedGateIsToldSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, pgfake.NewTable(), Config{})
		p.hangForEver()
		for range 2 * maxKeptFree {
			began := time.Now()
			_, err := p.Leases(t.Context())
			if !errors.Is(err, pgcall.ErrUnanswered) {
				t.Fatalf("Leases = %v", err)
			}
			if time.Since(began) == 0 {
				return
			}
			after(t, began, p.callLimit, "a call returned")
		}
		t.Errorf("the gate is open after %d calls", p.path.Kept())
	})
}

func TestCallsOfCandidatesAreFewAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, pgfake.NewTable(), Config{})
		p.path.Suffer(pgfake.Only(pgfake.KindAcquire, pgfake.Trouble{Slow: time.Second}))
		var all sync.WaitGroup
		most := 0
		for _, job := range jobNames(100) {
			all.Go(func() {
				term, _, err := p.TryAcquire(t.Context(), job)
				if err != nil {
					t.Error(err)
					return
				}
				mustResign(t, term)
			})
		}
		for range 15 {
			synctest.Wait()
			most = max(most, p.path.Kept())
			time.Sleep(time.Second)
		}
		all.Wait()
		if most != 8 { // a pool's connections are there for its owner
			t.Errorf("%d calls at once, want 8", most)
		}
	})
}

func TestCallerThatGoesDoesNotWaitForItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, pgfake.NewTable(), Config{})
		p.path.Suffer(pgfake.Always(pgfake.Trouble{Slow: 4 * time.Second}))
		var all sync.WaitGroup
		for range maxAtOnce {
			all.Go(func() { _, _ = p.Leases(t.Context()) })
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, err := p.Leases(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Leases = %v, want context.DeadlineExceeded", err)
		}
		after(t, began, time.Second, "returned")
		all.Wait()
	})
}

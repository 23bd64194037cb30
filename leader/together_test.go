package leader

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/internal/pgfake"
)

// All calls of an elector meet at the same jobs, while terms are lost and resigned at any moment.
// There is at most one live term of a job in a process, each election has one end, and nothing is
// left running.
func TestCallsOfAProcessMeetAtTheSameJobs(t *testing.T) {
	for name, trouble := range map[string]func(pgfake.Statement) pgfake.Trouble{
		"in good weather": nil,
		"in bad weather":  squalls,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				ctx, cancel := context.WithCancel(t.Context())
				var all sync.WaitGroup
				var processes []*process
				for range 2 {
					p := start(t, tb, Config{TTL: time.Second, RetryEvery: 20 * time.Millisecond})
					p.path.Suffer(trouble)
					processes = append(processes, p)
					for _, job := range jobNames(2) {
						p.meet(ctx, t, &all, job)
					}
				}
				time.Sleep(time.Minute)
				cancel()
				for _, p := range processes {
					p.path.Suffer(nil)
				}
				all.Wait()
				for _, p := range processes {
					terms, _, _ := p.watchdog.live() // those of TryAcquire that nobody resigned
					mustResign(t, terms...)
				}
				time.Sleep(time.Minute)
				for _, p := range processes {
					if n := len(p.reported(EventElected)); n < 50 {
						t.Errorf("%d elections, the test shows little", n)
					}
					synctest.Wait()
					if p.renewal.running || p.lookout.running || p.watchdog.armed {
						t.Errorf("renewal %v, lookout %v, watchdog %v are left running",
							p.renewal.running, p.lookout.running, p.watchdog.armed)
					}
				}
			})
		})
	}
}

// meet makes every call for the job again and again, side by side, until ctx ends.
func (p *process) meet(ctx context.Context, t *testing.T, all *sync.WaitGroup, job string) {
	nap := func() { time.Sleep(rand.N(300 * time.Millisecond)) }
	var mu sync.Mutex
	var last *Term
	lead := func(_ context.Context, term *Term) error {
		mu.Lock()
		if last != nil && last != term && last.Err() == nil && term.Err() == nil {
			t.Errorf("terms %d and %d of %q live at once", last.Token(), term.Token(), job)
		}
		last = term
		mu.Unlock()
		nap()
		switch rand.N(5) {
		case 0:
			return term.Resign()
		case 1:
			p.watchdog.lose(errUnseen, term)
			nap()
		}
		return nil
	}
	for _, call := range []func(context.Context){
		func(context.Context) { _ = p.Run(ctx, job, lead) },
		func(ctx context.Context) { _, _, _ = p.TryRun(ctx, job, lead) },
		func(ctx context.Context) {
			if term, err := p.Campaign(ctx, job); err == nil {
				_ = lead(ctx, term)
				_ = term.Resign()
			}
		},
		func(ctx context.Context) {
			// Run's term, or one that nobody resigns.
			if term, ok, err := p.TryAcquire(ctx, job); err == nil && ok && rand.N(2) == 0 {
				p.watchdog.lose(errUnseen, term)
			}
		},
		func(ctx context.Context) {
			p.Wake(job)
			for range p.Observe(ctx, job) {
			}
			if rand.N(8) == 0 {
				_, _ = p.Dismiss(ctx, job)
			}
		},
	} {
		all.Go(func() {
			for ctx.Err() == nil {
				short, cancel := context.WithTimeout(ctx, rand.N(time.Second))
				call(short)
				cancel()
				nap()
			}
		})
	}
}

// squalls lose, delay, repeat and refuse statements, each for a moment.
func squalls(pgfake.Statement) pgfake.Trouble {
	switch rand.N(12) {
	case 0:
		return pgfake.Trouble{Loses: pgfake.ErrReset}
	case 1:
		return pgfake.Trouble{Fails: pgfake.ErrReset}
	case 2:
		return pgfake.Trouble{Fails: pgfake.ServerError("40001")}
	case 3:
		return pgfake.Trouble{Slow: rand.N(600 * time.Millisecond), Deaf: true}
	case 4:
		return pgfake.Trouble{Late: rand.N(600 * time.Millisecond), Deaf: true}
	case 5:
		late := rand.N(1500 * time.Millisecond)
		return pgfake.Trouble{Late: late, Again: rand.N(1500 * time.Millisecond), Deaf: true}
	}
	return pgfake.Trouble{}
}

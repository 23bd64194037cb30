package leader

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/internal/pgcall"
	"github.com/pgleader/pgleader/internal/pgfake"
)

// weather is a network and a server of which anything may be expected, with good spells.
func weather(seed uint64) func(pgfake.Statement) pgfake.Trouble {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 0))
	var change time.Time
	bad := 0
	return func(pgfake.Statement) pgfake.Trouble {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); now.After(change) {
			change = now.Add(time.Duration(random.Int64N(int64(time.Minute))))
			bad = []int{0, 0, 10, 50, 100}[random.IntN(5)]
		}
		if random.IntN(100) >= bad {
			return pgfake.Trouble{}
		}
		seconds := func(most int64) time.Duration {
			return time.Duration(random.Int64N(most * int64(time.Second)))
		}
		return []pgfake.Trouble{
			{Hangs: true},
			{Swallows: true},
			{Fails: pgfake.ErrReset},
			{Loses: pgfake.ErrReset},
			{Fails: pgfake.ServerError("40001")},
			{Late: seconds(8), Slow: seconds(8)},
			{Late: seconds(40), Deaf: true},
			{Slow: seconds(40), Deaf: true},
			{Late: seconds(40), Slow: seconds(20), Deaf: true, Loses: pgfake.ErrReset},
		}[random.IntN(9)]
	}
}

func TestAtMostOneWorksWhateverTheNetworkDoes(t *testing.T) {
	manyWorkInAnyWeather(t, func(context.Context, *pgfake.Table, *rand.Rand) {})
}

// Back the clock may be set by any time, and forward by less than the margin.
func TestAtMostOneWorksWhileTheDatabasesClockIsSet(t *testing.T) {
	manyWorkInAnyWeather(t, func(ctx context.Context, tb *pgfake.Table, random *rand.Rand) {
		for {
			if pgcall.Sleep(ctx, defaultTTL+time.Duration(random.Int64N(int64(time.Minute)))) != nil {
				return
			}
			d := time.Duration(random.Int64N(int64(defaultTTL / 10)))
			if random.IntN(2) == 0 {
				far := []time.Duration{time.Second, defaultTTL, time.Hour, 24 * time.Hour}[random.IntN(4)]
				d = -time.Duration(random.Int64N(int64(far)))
			}
			tb.Step(d)
		}
	})
}

func manyWorkInAnyWeather(t *testing.T, torment func(context.Context, *pgfake.Table, *rand.Rand)) {
	t.Helper()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				jobs := []string{"a", "b", "c"}
				var mu sync.Mutex
				working := make(map[string]string) // job to holder
				elections := 0
				tb.OnTakeover(func(job, holder string) {
					mu.Lock()
					defer mu.Unlock()
					if other := working[job]; other != "" {
						t.Errorf("%q: %s takes the lease over while %s works", job, holder, other)
					}
				})
				ctx, cancel := context.WithCancel(t.Context())
				var all sync.WaitGroup
				var processes []*process
				for n := range 3 {
					p := start(t, tb, Config{Holder: fmt.Sprint("p", n)})
					p.path.Suffer(weather(seed*100 + uint64(n)))
					processes = append(processes, p)
					for _, job := range jobs {
						all.Go(func() {
							for ctx.Err() == nil {
								_ = p.Run(ctx, job, func(ctx context.Context, _ *Term) error {
									mu.Lock()
									if other := working[job]; other != "" {
										t.Errorf("%q: %s and %s work at once", job, p.Holder(), other)
									}
									working[job] = p.Holder()
									elections++
									mu.Unlock()
									defer func() {
										mu.Lock()
										working[job] = ""
										mu.Unlock()
									}()
									select {
									case <-ctx.Done():
									case <-time.After(rand.N(10 * time.Minute)):
									}
									return nil
								})
							}
						})
					}
				}
				all.Go(func() { torment(ctx, tb, rand.New(rand.NewPCG(seed, 1))) })
				time.Sleep(time.Hour)

				// When all is well again each job is led within the time that the gate may take, and stays so.
				for _, p := range processes {
					p.path.Suffer(nil)
				}
				time.Sleep(maxInterval + 20*time.Second)
				mu.Lock()
				for _, job := range jobs {
					if working[job] == "" && !tb.Live(job) {
						t.Errorf("nobody leads %q", job)
					}
				}
				if elections < 5*len(jobs) {
					t.Errorf("%d elections in all, the test shows little", elections)
				}
				mu.Unlock()
				cancel()
				all.Wait()
				time.Sleep(time.Minute)
				for _, job := range jobs {
					if tb.Live(job) {
						t.Errorf("the lease of %q outlives everybody", job)
					}
				}
			})
		})
	}
}

//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pgleader/pgleader/internal/chaos/check"
	"github.com/pgleader/pgleader/internal/pgtest"
)

// failovers kills leaders, and measures how long their job has none. Nothing else is done to the
// workers. So every other change of the leader is a false one: a term that was lost because this
// machine did not run somebody in time.
func failovers(ctx context.Context, out io.Writer, o options) error {
	s, err := newSite(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	fmt.Fprintf(out, "chaos: failovers for %v, TTL %v, on %v\n", o.failover, o.ttl, s.server)
	h := &history{
		seed: o.seed, self: s.self, db: s.db, jobs: []string{"failover"}, strict: true,
		timing: check.Timing{TTL: o.ttl, Look: o.ttl / 4, Margin: o.ttl / 10},
	}
	_, err = s.db.ExecContext(ctx, "INSERT INTO chaos_register VALUES ($1, 0, 0)", h.jobs[0])
	if err != nil {
		return err
	}
	for i := range 3 {
		name := fmt.Sprintf("failover-%d", i+1)
		m := &member{history: h, name: name, order: order{
			Driver: pgtest.Drivers[i%2],
			URL:    application(s.url, name), ClockURL: application(s.url, "clock"),
			TTL: o.ttl, Look: h.timing.Look, Jobs: h.jobs, Seed: o.seed,
		}}
		h.crew = append(h.crew, m)
		if err := m.start(); err != nil {
			return err
		}
		defer m.terminate(shutdownLimit)
	}
	f := &failoverRun{history: h, rng: rand.New(rand.NewPCG(o.seed, 1))}
	err = f.kill(ctx, o.failover)
	f.print(out, o)
	return err
}

type failoverRun struct {
	*history
	rng   *rand.Rand
	took  []time.Duration
	kills int
	never int
}

// kill kills a leader, waits for the next one, and gives it time to settle, again and again.
func (f *failoverRun) kill(ctx context.Context, duration time.Duration) error {
	if _, ok := f.elected(ctx, 0); !ok {
		return fmt.Errorf("nobody was elected in %v", settleLimit)
	}
	for end := time.Now().Add(duration); time.Now().Before(end); {
		if !sleep(ctx, 3*f.timing.TTL+within(f.rng, f.timing.TTL)) {
			return ctx.Err()
		}
		last := f.last()
		for _, m := range f.crew {
			if m.worker() != last.Worker {
				continue
			}
			at := time.Now()
			m.kill()
			f.kills++
			next, ok := f.elected(ctx, last.Token)
			if !ok {
				f.never++
			} else {
				f.took = append(f.took, next.At.Sub(at))
			}
			if err := m.start(); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// last returns the newest election.
func (f *failoverRun) last() (last check.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.records {
		if r.Kind == check.Elected && r.Token > last.Token {
			last = r
		}
	}
	return last
}

// elected waits for an election under a greater token.
func (f *failoverRun) elected(ctx context.Context, token int64) (check.Record, bool) {
	for end := time.Now().Add(settleLimit); time.Now().Before(end); {
		if last := f.last(); last.Token > token {
			return last, true
		}
		if !sleep(ctx, 5*time.Millisecond) {
			break
		}
	}
	return check.Record{}, false
}

func (f *failoverRun) print(out io.Writer, o options) {
	lost, stalls := 0, 0
	f.mu.Lock()
	for _, r := range f.records {
		switch r.Kind {
		case check.Lost:
			lost++
		case check.Stall:
			stalls++
		}
	}
	f.mu.Unlock()
	slices.Sort(f.took)
	fmt.Fprintf(out, `chaos: %d leaders killed at TTL %v `+
		`(a look every %v; %d processes keep the machine busy)
  next leader after  min %v, p50 %v, p99 %v, max %v; %d times none within %v
  false failovers    %d: terms lost although nothing was done to their process
  stalls             %d times a worker was not run for more than 40ms
`, f.kills, f.timing.TTL, f.timing.Look, o.burn,
		quantile(f.took, 0), quantile(f.took, .5), quantile(f.took, .99), quantile(f.took, 1),
		f.never, settleLimit, lost, stalls)
}

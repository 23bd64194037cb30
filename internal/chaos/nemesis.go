//go:build unix

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// A fault is something that befalls a worker, or the database, for a while.
type fault struct {
	kind   string
	wait   time.Duration // since the last one in its lane was over
	length time.Duration
}

func (f fault) String() string {
	return fmt.Sprintf("%v later %s for %v",
		f.wait.Round(time.Millisecond), f.kind, f.length.Round(time.Millisecond))
}

// The faults of a worker. What is named twice comes twice as often.
var workerFaults = []string{
	"kill", "kill", "stop", "stop", "stop", "cut", "black hole", "black hole", "replies lost",
	"late statements", "late statements", "connections terminated", "pool exhausted", "slow path",
	"clock step", "shutdown",
}

// The faults of the database, common to all workers.
var databaseFaults = []string{"row locked", "dismiss", "dismiss", "row locked for share"}

// A plan is a lane of faults for each worker and one for the database. It follows from the seed.
type plan struct {
	workers  [][]fault
	database []fault
}

func newPlan(rng *rand.Rand, workers int, duration, ttl time.Duration) plan {
	var p plan
	for range workers {
		p.workers = append(p.workers, lane(rng, workerFaults, duration, ttl))
	}
	p.database = lane(rng, databaseFaults, duration, ttl)
	return p
}

// lane fills the time with faults that last from a third of the TTL to nearly twice as long: around
// it everything interesting happens.
func lane(rng *rand.Rand, kinds []string, duration, ttl time.Duration) []fault {
	var faults []fault
	for at := time.Duration(0); ; {
		f := fault{
			kind:   kinds[rng.IntN(len(kinds))],
			wait:   ttl/4 + within(rng, ttl*5/4),
			length: ttl/3 + within(rng, ttl*3/2),
		}
		if f.kind == "dismiss" {
			f.length = 0
		}
		at += f.wait + f.length
		if at > duration {
			return faults
		}
		faults = append(faults, f)
	}
}

func (p plan) String() string {
	var text strings.Builder
	for i, faults := range p.workers {
		fmt.Fprintf(&text, "  worker %d: %v\n", i+1, faults)
	}
	fmt.Fprintf(&text, "  database: %v\n", p.database)
	return text.String()
}

// carryOut runs all lanes to their end. When it returns, everything is whole again.
func (h *history) carryOut(ctx context.Context) {
	var lanes sync.WaitGroup
	for i, faults := range h.plan.workers {
		lanes.Go(func() {
			for _, f := range faults {
				if !sleep(ctx, f.wait) {
					return
				}
				h.befall(ctx, h.crew[i], f)
			}
		})
	}
	lanes.Go(func() {
		for _, f := range h.plan.database {
			if !sleep(ctx, f.wait) {
				return
			}
			h.befallDatabase(ctx, f)
		}
	})
	lanes.Wait()
}

// sleep reports whether it slept to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// within is a duration below the given one.
func within(rng *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(d)))
}

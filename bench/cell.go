package main

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"time"
)

// The operations that every subject has some of.
const (
	acquire = "acquire" // a free lease
	renew   = "renew"   // one's own
	lose    = "lose"    // a one-shot attempt on a lease that another one holds
	look    = "look"    // what a waiting candidate asks again and again
	release = "release"
)

// A cell is one operation of one subject over one driver.
type cell struct {
	bench, subject, driver string

	prepare func() error                  // not measured; may be nil
	run     func() error                  // measured from outside
	timed   func() (time.Duration, error) // in place of run, for what only the subject can time

	every int // do it in every so-many-th round only; 0 means each
}

// A subject makes its cells in a place. It is asked twice for a driver: on a straight path, and by
// way of a proxy that counts.
type subject func(ctx context.Context, b *bench, at place) ([]cell, error)

type place struct {
	driver driver
	url    string
	pool   *sql.DB
	tag    string // for names of its own
}

// once does the operation and says how long it took.
func (c cell) once() (time.Duration, error) {
	if c.prepare != nil {
		if err := c.prepare(); err != nil {
			return 0, err
		}
	}
	if c.timed != nil {
		return c.timed()
	}
	begun := time.Now()
	err := c.run()
	return time.Since(begun), err
}

// interleave does every cell once a round, each round in another order, so that whatever else
// happens on the machine meets all of them alike. The first tenth of the rounds is not counted. It
// does fewer rounds if they take longer than limit.
func interleave(
	ctx context.Context, cells []cell, rounds int, limit time.Duration,
) ([][]time.Duration, error) {
	begun := time.Now()
	samples := make([][]time.Duration, len(cells))
	warm := rounds/10 + 1
	for round := range rounds + warm {
		if time.Since(begun) > limit {
			break
		}
		for _, i := range rand.Perm(len(cells)) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if c := cells[i]; c.every > 0 && round%c.every != 0 {
				continue
			}
			took, err := cells[i].once()
			if err != nil {
				return nil, cellError{cells[i], err}
			}
			if round >= warm {
				samples[i] = append(samples[i], took)
			}
		}
	}
	return samples, nil
}

type cellError struct {
	cell cell
	err  error
}

func (e cellError) Error() string {
	return e.cell.bench + " by " + e.cell.subject + " over " + e.cell.driver + ": " + e.err.Error()
}

func (e cellError) Unwrap() error { return e.err }

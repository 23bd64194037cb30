package pgcall

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A gate bounds the questions that a driver keeps beyond their time. While the network swallows
// everything, each costs a goroutine and a connection that may never come back. The process must
// still try again, for the path may be back for new connections only. So a few are let go freely,
// then one at a time, at doubling intervals.
type gate struct {
	turns chan struct{}
	first time.Duration // the first interval

	mu       sync.Mutex
	kept     int // questions that the driver still keeps beyond their time
	forgiven int // how many of them belong to an outage that is over
	interval time.Duration
	opens    time.Time
}

const (
	maxAtOnce   = 8               // questions through the gate
	maxKeptFree = 4               // kept questions before the intervals begin
	maxInterval = 1 * time.Minute // the longest interval
)

func newGate(first time.Duration) *gate {
	return &gate{turns: make(chan struct{}, maxAtOnce), first: first}
}

// pass waits for a turn to ask. Whoever passes gives the turn back by done, and reports a question
// that was left behind by keep.
func (g *gate) pass(ctx context.Context) error {
	select {
	case g.turns <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.kept-g.forgiven < maxKeptFree {
		return nil
	}
	if wait := time.Until(g.opens); wait > 0 {
		<-g.turns
		return fmt.Errorf("%w: the driver still holds %d earlier calls; next try in %v",
			ErrUnanswered, g.kept, wait.Round(time.Millisecond))
	}
	g.close()
	return nil
}

// close shuts the gate for the next, longer, interval. The caller holds g.mu.
func (g *gate) close() {
	g.interval = min(max(2*g.interval, g.first), maxInterval)
	g.opens = time.Now().Add(g.interval)
}

// done gives the turn back. Only an answer of the server's proves that the path is back, not a
// refused connection.
func (g *gate) done(err error) {
	<-g.turns
	if err != nil && Undecided(err) && !errors.Is(err, sql.ErrNoRows) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forgiven, g.interval, g.opens = g.kept, 0, time.Time{}
}

// keep counts a question that was left behind, until its driver returns.
func (g *gate) keep() (returned func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.kept++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.kept--
		g.forgiven = min(g.forgiven, g.kept)
	}
}

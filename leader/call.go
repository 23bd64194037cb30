package leader

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pgleader/pgleader/db"
)

// A connector lends the queries on one connection. The caller gives it back with the error of the last call, so that a
// connection that has gone bad is not lent again. It is the seam where tests put a database of their own.
type connector func(context.Context) (queries db.Querier, giveBack func(error), err error)

func connectorOf(pool *sql.DB) connector {
	return func(ctx context.Context) (db.Querier, func(error), error) {
		conn, err := pool.Conn(ctx)
		if err != nil {
			return nil, nil, err
		}
		return db.New(conn), func(err error) {
			if sqlState(err) == "25006" {
				// Read-only since a failover: this connection still leads to the old primary, and would for ever.
				_ = conn.Raw(func(any) error { return driver.ErrBadConn })
			}
			_ = conn.Close()
		}, nil
	}
}

// connectLimit is how long a connection may take to open, or to become free in the pool.
const connectLimit = 10 * time.Second

// call asks the database, and returns when it has answered or ctx has ended, whichever comes first. It does not rely on
// the driver for that: lib/pq returns from a query only when the server or the network says so (lib/pq#620). A call
// that the driver keeps for longer goes on alone, and its result is dropped.
func call[T any](ctx context.Context, connect connector, abandoned func() (returned func()), ask func(context.Context, db.Querier) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		// A connection may take longer to open than a statement may take to run. Cut short at the same limit it would be begun
		// anew by every try and never be there; so it is opened to the end, and the next try finds it in the pool.
		patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectLimit)
		defer cancel()
		var a answer
		// A pooled connection that died unnoticed says ErrBadConn, meaning that nothing was sent; the pool holds a few.
		for range 3 {
			var queries db.Querier
			var giveBack func(error)
			if queries, giveBack, a.err = connect(patient); a.err != nil {
				break
			}
			if a.err = ctx.Err(); a.err != nil { // nobody waits for the answer any more
				giveBack(nil)
				break
			}
			a.value, a.err = ask(ctx, queries)
			giveBack(a.err)
			if !errors.Is(a.err, driver.ErrBadConn) || ctx.Err() != nil {
				break
			}
		}
		answers <- a
	}()

	select {
	case a := <-answers:
		return a.value, explain(a.err)
	case <-ctx.Done():
	}
	select {
	case a := <-answers: // both were ready
		return a.value, explain(a.err)
	default:
	}
	if abandoned != nil {
		returned := abandoned()
		go func() {
			<-answers
			returned()
		}()
	}
	var none T
	return none, fmt.Errorf("%w: %w", errUnanswered, context.Cause(ctx))
}

// A gate bounds the calls of candidates that a driver keeps beyond their time. While the network swallows everything, each
// call costs a goroutine and a connection that may never come back, and the candidates must still try again, for the
// path may be back for new connections only. So a few are let go freely, then one at a time, at doubling intervals.
type gate struct {
	slots chan struct{}
	first time.Duration // the first interval

	mu       sync.Mutex
	kept     int // calls that the driver still keeps beyond their time
	forgiven int // how many of them belong to an outage that is over
	interval time.Duration
	opens    time.Time
}

const (
	maxCalls     = 8               // of candidates at once
	maxKeptFree  = 4               // kept calls before the intervals begin
	maxGateClose = 1 * time.Minute // the longest interval
)

func newGate(first time.Duration) *gate {
	return &gate{slots: make(chan struct{}, maxCalls), first: first}
}

// pass waits for a turn to call. The caller gives the turn back with done, and reports a kept call with keep.
func (g *gate) pass(ctx context.Context) error {
	select {
	case g.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.kept-g.forgiven < maxKeptFree {
		return nil
	}
	if wait := time.Until(g.opens); wait > 0 {
		<-g.slots
		return fmt.Errorf("%w: the driver still holds %d earlier calls; next try in %v", errUnanswered, g.kept, wait.Round(time.Millisecond))
	}
	g.close()
	return nil
}

// close shuts the gate for the next, longer, interval.
func (g *gate) close() {
	g.interval = min(max(2*g.interval, g.first), maxGateClose)
	g.opens = time.Now().Add(g.interval)
}

// done gives the turn back. Only an answer of the server's proves that the path is back, not a refused connection.
func (g *gate) done(err error) {
	<-g.slots
	if err != nil && undecided(err) && !errors.Is(err, sql.ErrNoRows) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forgiven, g.interval, g.opens = g.kept, 0, time.Time{}
}

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

// ask is call for a candidate: through the gate, and limited to the time that one call may take.
func ask[T any](ctx context.Context, e *Elector, question func(context.Context, db.Querier) (T, error)) (T, error) {
	var none T
	if err := e.gate.pass(ctx); err != nil {
		return none, err
	}
	ctx, cancel := context.WithTimeout(ctx, e.callLimit)
	defer cancel()
	value, err := call(ctx, e.connect, e.gate.keep, question)
	e.gate.done(err)
	return value, err
}

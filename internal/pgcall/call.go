// Package pgcall asks a database in bounded time, and says what its errors mean. It knows no lease.
//
// A [Caller] stands for one process's use of one database. [Ask] is one question within a limit,
// [AskAmongRivals] asks again while a concurrent transaction is in the way, and [AskWhile] asks
// again for as long as its caller says. [Call] is the bare question: a holder's, which waits for no
// turn.
//
// No function relies on the driver to return. A question that a driver keeps for longer than its
// time is left behind, and its answer is dropped.
package pgcall

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/pgleader/pgleader/db"
)

// A Connector lends the queries on one connection. The caller gives it back with the error of the
// last call, so that a connection that has gone bad is not lent again. Tests put a database of
// their own behind it.
type Connector func(context.Context) (queries db.Querier, giveBack func(error), err error)

// ConnectorOf lends the connections of a pool, which stays the caller's.
func ConnectorOf(pool *sql.DB) Connector {
	return func(ctx context.Context) (db.Querier, func(error), error) {
		conn, err := pool.Conn(ctx)
		if err != nil {
			return nil, nil, err
		}
		return db.New(conn), func(err error) {
			if SQLState(err) == "25006" {
				// Read-only since a failover: this connection leads to the old primary, and would for ever.
				_ = conn.Raw(func(any) error { return driver.ErrBadConn })
			}
			_ = conn.Close()
		}, nil
	}
}

// A Caller asks one database on behalf of one process. Its methods and the functions that take it
// may be called from several goroutines.
type Caller struct {
	connect Connector
	limit   time.Duration
	pause   time.Duration
	gate    *gate
}

// New returns a caller. Limit is how long one question may take, and pause how long AskWhile waits
// between two tries. While the network swallows everything, candidates are held back: retry is the
// first interval between their tries.
func New(connect Connector, limit, pause, retry time.Duration) *Caller {
	return &Caller{connect: connect, limit: limit, pause: pause, gate: newGate(retry)}
}

// A Question is put to the queries on one connection.
type Question[T any] func(context.Context, db.Querier) (T, error)

const (
	connectLimit = 10 * time.Second // for a connection to open, or to become free in the pool
	connectTries = 3                // a pool may hold a few connections that died unnoticed
)

// Call asks, and returns when the database has answered or ctx has ended, whichever comes first.
// Errors are explained: see Explain. One that says ErrUnanswered tells that the driver had not
// returned: the statement may still be carried out.
//
// lib/pq returns from a query only when the server or the network says so (lib/pq#620), so the
// question is put in a goroutine of its own.
func Call[T any](ctx context.Context, c *Caller, question Question[T]) (T, error) {
	return call(ctx, c.connect, nil, question)
}

// call is Call. It says by abandoned that a question was left behind, and by returned that its
// driver has come back since.
func call[T any](
	ctx context.Context, connect Connector, abandoned func() (returned func()), question Question[T],
) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		var a answer
		a.value, a.err = ask(ctx, connect, question)
		answers <- a
	}()

	select {
	case a := <-answers:
		return a.value, Explain(a.err)
	case <-ctx.Done():
	}
	select {
	case a := <-answers: // both were ready
		return a.value, Explain(a.err)
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
	return none, fmt.Errorf("%w: %w", ErrUnanswered, context.Cause(ctx))
}

// ask puts the question on a connection, and on another one if that turns out to be dead.
func ask[T any](ctx context.Context, connect Connector, question Question[T]) (value T, err error) {
	// A connection may take longer to open than a statement may take to run. Cut short at the same
	// limit it would be begun anew by every try and never be there; so it is opened to the end, and
	// the next try finds it in the pool.
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectLimit)
	defer cancel()
	for range connectTries {
		queries, giveBack, err := connect(patient)
		if err != nil {
			return value, err
		}
		if err := ctx.Err(); err != nil { // nobody waits for the answer any more
			giveBack(nil)
			return value, err
		}
		value, err = question(ctx, queries)
		giveBack(err)
		// ErrBadConn means that nothing was sent.
		if !errors.Is(err, driver.ErrBadConn) || ctx.Err() != nil {
			return value, err
		}
	}
	return value, driver.ErrBadConn
}

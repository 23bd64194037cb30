package pgfake

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync/atomic"

	"github.com/pgleader/pgleader/db"
)

// OpenDB returns a pool of connections over the path, for what takes a *sql.DB. It knows the
// statements of package db, and in a transaction those by which a slot is completed.
//
// Call it in the bubble, and close the pool there: its goroutine ends then.
func (p *Path) OpenDB() *sql.DB { return sql.OpenDB(connector{p}) }

type connector struct{ path *Path }

func (c connector) Driver() driver.Driver { return c }

func (c connector) Open(string) (driver.Conn, error) {
	return nil, errors.New("pgfake: there is no server to find by a name, call Path.OpenDB")
}

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	if err := c.path.dial(ctx); err != nil {
		return nil, err
	}
	return &conn{path: c.path, era: c.path.currentEra()}, nil
}

// A conn is a connection of the pool, which calls its methods one at a time.
type conn struct {
	path *Path
	era  int // of the path, which Disconnect ends
	tx   *transaction
	txOf context.Context // of BeginTx
	bad  atomic.Bool
}

var _ interface {
	driver.QueryerContext
	driver.ExecerContext
	driver.ConnBeginTx
	driver.NamedValueChecker
	driver.SessionResetter
	driver.Validator
} = (*conn)(nil)

// QueryContext asks a statement of package db that has an answer.
func (c *conn) QueryContext(
	ctx context.Context, query string, args []driver.NamedValue,
) (driver.Rows, error) {
	queries := c.queries()
	answer, err := call(ctx, c, func(ctx context.Context) (any, error) {
		return dispatch(ctx, queries, query, args)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return &rows{}, nil
	}
	if err != nil {
		return nil, err
	}
	return rowsOf(answer)
}

// ExecContext asks a statement of package db that changes rows, or notes a Write.
func (c *conn) ExecContext(
	ctx context.Context, query string, args []driver.NamedValue,
) (driver.Result, error) {
	queries := c.queries()
	answer, err := call(ctx, c, func(ctx context.Context) (any, error) {
		if query == Write {
			return int64(1), write(ctx, queries, args)
		}
		return dispatch(ctx, queries, query, args)
	})
	if err != nil {
		return nil, err
	}
	changed, _ := answer.(int64)
	return driver.RowsAffected(changed), nil
}

// queries is what the statements of package db are asked of.
func (c *conn) queries() any {
	if c.tx != nil {
		return c.tx
	}
	return db.Querier(c.path)
}

// Write is the text of a user's own statement in a transaction, for ExecContext. Its argument, a
// func(), is called if and when the transaction commits. It must not call the table.
const Write = "-- name: Write :exec"

func write(ctx context.Context, queries any, args []driver.NamedValue) error {
	tx, ok := queries.(*transaction)
	if !ok {
		return errors.New("pgfake: Write belongs in a transaction")
	}
	if len(args) == 1 {
		if f, ok := args[0].Value.(func()); ok {
			return tx.write(ctx, f)
		}
	}
	return errors.New("pgfake: Write wants one argument, a func()")
}

// CheckNamedValue lets the argument of Write pass.
func (c *conn) CheckNamedValue(arg *driver.NamedValue) error {
	if _, ok := arg.Value.(func()); ok {
		return nil
	}
	return driver.ErrSkip
}

// BeginTx begins a transaction under READ COMMITTED, and knows no other kind.
func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	level := sql.IsolationLevel(opts.Isolation)
	if level != sql.LevelDefault && level != sql.LevelReadCommitted || opts.ReadOnly {
		return nil, errors.New("pgfake: want a transaction under READ COMMITTED that may write")
	}
	tx, err := call(ctx, c, c.path.begin)
	if err != nil {
		return nil, err
	}
	c.tx, c.txOf = tx, ctx
	return c, nil
}

// Begin is not called, for there is BeginTx.
func (c *conn) Begin() (driver.Tx, error) {
	return c.BeginTx(context.Background(), driver.TxOptions{})
}

// Commit ends the transaction of BeginTx.
func (c *conn) Commit() error { return c.end((*transaction).commit) }

// Rollback ends the transaction of BeginTx.
func (c *conn) Rollback() error { return c.end((*transaction).rollback) }

func (c *conn) end(how func(*transaction, context.Context) error) error {
	tx := c.tx
	ctx := context.WithoutCancel(c.txOf)
	c.tx, c.txOf = nil, nil
	_, err := call(ctx, c, func(ctx context.Context) (any, error) { return nil, how(tx, ctx) })
	if err != nil {
		tx.abort()
	}
	return err
}

// ResetSession waits for ever where no connection is to come free, also not a pooled one.
func (c *conn) ResetSession(ctx context.Context) error {
	if c.path.isStarved() {
		<-ctx.Done()
		return driver.ErrBadConn
	}
	if !c.IsValid() {
		return driver.ErrBadConn
	}
	return nil
}

// IsValid reports whether the pool may keep the connection.
func (c *conn) IsValid() bool { return !c.bad.Load() && c.era == c.path.currentEra() }

// Close closes the connection. The server rolls back what is open.
func (c *conn) Close() error {
	if c.tx != nil {
		c.tx.abort()
	}
	return nil
}

// Prepare refuses, for the generated code asks directly.
func (c *conn) Prepare(string) (driver.Stmt, error) {
	return nil, errors.New("pgfake: prepared statements are not supported")
}

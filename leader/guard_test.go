package leader

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/internal/pgcall"
	"github.com/pgleader/pgleader/internal/pgfake"
)

// A guardServer is a database that knows one statement, GuardLease. It answers with a row, with
// none (io.EOF), or an error.
type guardServer func(ctx context.Context) error

func (s guardServer) Connect(context.Context) (driver.Conn, error) { return guardConn{s}, nil }
func (s guardServer) Driver() driver.Driver                        { return nil }

type guardConn struct{ answer guardServer }

func (guardConn) Prepare(string) (driver.Stmt, error) { return nil, errors.New("not prepared") }
func (guardConn) Begin() (driver.Tx, error)           { return guardTx{}, nil }
func (guardConn) Close() error                        { return nil }

func (c guardConn) QueryContext(
	ctx context.Context, _ string, args []driver.NamedValue,
) (driver.Rows, error) {
	err := c.answer(ctx)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return &guardRows{token: args[2].Value, end: err}, nil
}

type guardTx struct{}

func (guardTx) Commit() error   { return nil }
func (guardTx) Rollback() error { return nil }

type guardRows struct {
	token driver.Value
	end   error
}

func (*guardRows) Columns() []string { return []string{"token"} }
func (*guardRows) Close() error      { return nil }

func (r *guardRows) Next(row []driver.Value) error {
	if r.end != nil {
		return r.end
	}
	row[0], r.end = r.token, io.EOF
	return nil
}

// guard calls Guard of the term in a transaction on a server that answers so.
func guard(t *testing.T, term *Term, answer guardServer) error {
	t.Helper()
	pool := sql.OpenDB(answer)
	defer pool.Close()
	tx, err := pool.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	return term.Guard(t.Context(), tx)
}

func TestGuardEndsATermWhoseRowIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, Config{})
		term := p.mustLead(t, "report")
		if err := guard(t, term, func(context.Context) error { return nil }); err != nil {
			t.Errorf("Guard = %v while the term leads", err)
		}
		tb.Put("report", "another", time.Hour)
		err := guard(t, term, func(context.Context) error { return io.EOF })
		if !errors.Is(err, ErrLost) {
			t.Errorf("Guard = %v, want ErrLost", err)
		}
		if !errors.Is(context.Cause(term.Context()), ErrLost) {
			t.Errorf("the context's cause is %v, want ErrLost", context.Cause(term.Context()))
		}
		mustResign(t, term)
		if !tb.Live("report") {
			t.Error("it released a lease that is another's")
		}
	})
}

func TestGuardThatFailsEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, pgfake.NewTable(), Config{})
		term := p.mustLead(t, "report")
		for state, want := range map[string]error{
			"40001": nil, "57014": nil, "42P01": ErrNotMigrated, "25006": ErrReadOnly,
		} {
			err := guard(t, term, func(context.Context) error { return pgfake.ServerError(state) })
			if pgcall.SQLState(err) != state || errors.Is(err, ErrLost) ||
				want != nil && !errors.Is(err, want) {
				t.Errorf("Guard = %v, want SQLSTATE %s", err, state)
			}
		}
		if term.Context().Err() != nil {
			t.Errorf("the term is over: %v", context.Cause(term.Context()))
		}
		mustResign(t, term)
	})
}

func TestGuardWaitsNoLongerThanItsTerm(t *testing.T) {
	for name, answer := range map[string]guardServer{
		"called off":  func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"late answer": func(ctx context.Context) error { <-ctx.Done(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t, pgfake.NewTable(), Config{})
				p.path.Suffer(pgfake.Only(pgfake.KindRenewOne, pgfake.Trouble{Fails: pgfake.ErrReset}))
				began := time.Now()
				term := p.mustLead(t, "report")
				if err := guard(t, term, answer); !errors.Is(err, ErrLost) {
					t.Errorf("Guard = %v, want ErrLost", err)
				}
				after(t, began, p.ttl-p.margin, "returned")
			})
		})
	}
}

func TestGuardOfASuspendedProcessIsRefusedAfterItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, Config{})
		wall := p.setWall()
		term := p.mustLead(t, "report")
		err := guard(t, term, func(context.Context) error { suspend(tb, wall, time.Hour); return nil })
		if !errors.Is(err, ErrLost) {
			t.Errorf("Guard = %v, want ErrLost", err)
		}
	})
}

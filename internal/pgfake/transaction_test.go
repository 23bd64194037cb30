package pgfake_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/internal/pgfake"
)

// A desk is a job that a leads, whose slot it has claimed, and a transaction of its.
type desk struct {
	table *pgfake.Table
	path  *pgfake.Path
	pool  *sql.DB
	tx    *sql.Tx
	rival *pgfake.Path
}

// inTransaction runs a test in a bubble.
func inTransaction(t *testing.T, test func(t *testing.T, d *desk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		d := &desk{table: tb, rival: pgfake.NewPath(tb)}
		d.path, d.pool = open(t, tb)
		must(t)(acquire("a", 0)(t.Context(), d.path, "job"))
		must(t)(claim("a", 1, due, 0)(t.Context(), d.path, "job"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var err error
		if d.tx, err = d.pool.BeginTx(ctx, nil); err != nil {
			t.Fatal(err)
		}
		defer d.tx.Rollback()
		test(t, d)
	})
}

func must(t *testing.T) func(answer any, err error) {
	t.Helper()
	return func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}

// do asks in the transaction.
func (d *desk) do(t *testing.T, questions ...question) {
	t.Helper()
	for _, q := range questions {
		must(t)(q(t.Context(), db.New(d.tx), "job"))
	}
}

func (d *desk) state() string { return d.table.Slots()[0].State }

func TestGuardHoldsOffTakeoverAndLetsRenewalsPass(t *testing.T) {
	inTransaction(t, func(t *testing.T, d *desk) {
		d.do(t, questions["guard"])
		for _, own := range []string{"renew", "renew many", "release"} {
			must(t)(questions[own](t.Context(), d.path, "job"))
		}
		if got := d.table.Row("job"); got.ExpiresAt.After(d.table.Clock()) {
			t.Errorf("the lease was not released: %+v", got)
		}
		must(t)(acquire("b", 0)(t.Context(), d.rival, "job"))
		if got := d.table.Row("job"); got.Holder != "a" || got.Token != 1 {
			t.Errorf("%s took the lease over under an open guard", got.Holder)
		}
		if err := d.tx.Commit(); err != nil {
			t.Fatal(err)
		}
		must(t)(acquire("b", 0)(t.Context(), d.rival, "job"))
		if got := d.table.Row("job"); got.Holder != "b" || got.Token != 2 {
			t.Errorf("%s has the lease under token %d after the guard, want b", got.Holder, got.Token)
		}
	})
}

func TestDismissalWaitsForTheLastGuard(t *testing.T) {
	inTransaction(t, func(t *testing.T, d *desk) {
		d.do(t, questions["guard"], questions["guard"])
		second, err := d.pool.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		must(t)(questions["guard"](t.Context(), db.New(second), "job"))
		time.AfterFunc(time.Minute, func() { _ = d.tx.Commit() })
		time.AfterFunc(2*time.Minute, func() { _ = second.Rollback() })
		began := time.Now()
		must(t)(questions["dismiss"](t.Context(), d.rival, "job"))
		if got := time.Since(began); got != 2*time.Minute {
			t.Errorf("dismissed after %v, want 2m0s", got)
		}
	})
}

func TestFinishedSlotIsNobodysToSeeBeforeTheCommit(t *testing.T) {
	inTransaction(t, func(t *testing.T, d *desk) {
		d.do(t, questions["guard"], finish("a", 1))
		if got := d.state(); got != pgfake.StateRunning {
			t.Errorf("others see the slot %s before the commit", got)
		}
		row, err := db.New(d.tx).ReadSlot(t.Context(), db.ReadSlotParams{JobName: "job", Slot: due})
		if err != nil || row.State != pgfake.StateFailed {
			t.Errorf("the transaction sees the slot %s, %v", row.State, err)
		}
		n, err := finish("a", 1)(t.Context(), db.New(d.tx), "job")
		if n != int64(0) || err != nil {
			t.Errorf("the transaction finishes the slot twice: %v, %v", n, err)
		}
		if err := d.tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if got := d.state(); got != pgfake.StateFailed {
			t.Errorf("the slot is %s after the commit, want failed", got)
		}
	})
}

func TestRollbackLeavesTheSlotAsItWas(t *testing.T) {
	inTransaction(t, func(t *testing.T, d *desk) {
		before := d.table.Slots()[0]
		d.do(t, questions["guard"], finish("a", 1))
		if err := d.tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if after := d.table.Slots()[0]; after != before {
			t.Errorf("the slot is %+v, and was %+v", after, before)
		}
		must(t)(finish("a", 1)(t.Context(), d.path, "job"))
	})
}

func TestChangeOfTheSameSlotWaitsForTheTransaction(t *testing.T) {
	for name, commit := range map[string]bool{"commit": true, "rollback": false} {
		t.Run(name, func(t *testing.T) {
			inTransaction(t, func(t *testing.T, d *desk) {
				d.do(t, finish("a", 1))
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				_, err := finish("a", 1)(ctx, d.path, "job")
				if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute {
					t.Errorf("%v after %v, want the end of the context", err, time.Since(began))
				}
				time.AfterFunc(time.Minute, func() {
					if commit {
						_ = d.tx.Commit()
					} else {
						_ = d.tx.Rollback()
					}
				})
				began = time.Now()
				n, err := finish("a", 1)(t.Context(), d.path, "job")
				if time.Since(began) != time.Minute || err != nil || (n == int64(0)) != commit {
					t.Errorf("%v, %v after %v, want the transaction's end", n, err, time.Since(began))
				}
			})
		})
	}
}

func TestSecondTransactionWaitsForTheFirst(t *testing.T) {
	inTransaction(t, func(t *testing.T, d *desk) {
		second, err := d.pool.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer second.Rollback()
		d.do(t, finish("a", 1))
		time.AfterFunc(time.Minute, func() { _ = d.tx.Rollback() })
		began := time.Now()
		must(t)(finish("a", 1)(t.Context(), db.New(second), "job"))
		if got := time.Since(began); got != time.Minute {
			t.Errorf("finished in the second after %v, want 1m0s", got)
		}
	})
}

func TestTransactionOnWhichAStatementFailedCantCommit(t *testing.T) {
	inTransaction(t, func(t *testing.T, d *desk) {
		d.do(t, finish("a", 1))
		d.path.Suffer(pgfake.Always(pgfake.Trouble{Fails: pgfake.ServerError("57014")}))
		_, _ = questions["guard"](t.Context(), db.New(d.tx), "job")
		d.path.Suffer(nil)
		var state pgfake.ServerError
		_, err := questions["guard"](t.Context(), db.New(d.tx), "job")
		if !errors.As(err, &state) || state != "25P02" {
			t.Errorf("%v, want SQLSTATE 25P02", err)
		}
		if err := d.tx.Commit(); err == nil || d.state() != pgfake.StateRunning {
			t.Errorf("Commit = %v, and the slot is %s; want an error and no trace", err, d.state())
		}
	})
}

func TestTransactionEndsWithItsContextWhateverHangs(t *testing.T) {
	for _, kind := range []pgfake.Kind{"nothing", pgfake.KindGuard, pgfake.KindFinishSlot} {
		t.Run(string(kind), func(t *testing.T) {
			inTransaction(t, func(t *testing.T, d *desk) {
				d.path.Suffer(pgfake.Only(kind, pgfake.Trouble{Slow: 3 * time.Hour, Deaf: true}))
				_, _ = finish("a", 1)(t.Context(), db.New(d.tx), "job")
				_, _ = questions["guard"](t.Context(), db.New(d.tx), "job")
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				if err := d.tx.Commit(); err == nil || d.state() != pgfake.StateRunning {
					t.Errorf("Commit = %v, and the slot is %s; want an error and no trace", err, d.state())
				}
				must(t)(acquire("b", 0)(t.Context(), d.rival, "job"))
				if got := d.table.Row("job"); got.Holder != "b" {
					t.Error("the guard outlives its transaction")
				}
			})
		})
	}
}

func TestServerRollsBackWhenItFindsTheClientGone(t *testing.T) {
	inTransaction(t, func(t *testing.T, d *desk) {
		d.do(t, questions["guard"], finish("a", 1))
		d.path.Disconnect()
		must(t)(questions["dismiss"](t.Context(), d.rival, "job"))
		if err := d.tx.Commit(); err == nil || d.state() != pgfake.StateRunning {
			t.Errorf("Commit = %v, and the slot is %s; want an error and no trace", err, d.state())
		}
	})
}

func TestWriteIsDoneWithTheCommit(t *testing.T) {
	for name, tt := range map[string]struct {
		trouble  pgfake.Trouble
		err      error
		rollback bool
		written  int
	}{
		"commit":   {written: 1},
		"rollback": {rollback: true},
		"answer lost": {
			trouble: pgfake.Trouble{Loses: pgfake.ErrReset}, err: pgfake.ErrReset, written: 1,
		},
		"commit refused": {
			trouble: pgfake.Trouble{Fails: pgfake.ServerError("40001")},
			err:     pgfake.ServerError("40001"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			inTransaction(t, func(t *testing.T, d *desk) {
				d.do(t, questions["guard"], finish("a", 1))
				written := 0
				if _, err := d.tx.ExecContext(t.Context(), pgfake.Write, func() { written++ }); err != nil {
					t.Fatal(err)
				}
				if written > 0 {
					t.Error("it was done before the commit")
				}
				d.path.Suffer(pgfake.Only(pgfake.KindCommit, tt.trouble))
				end := d.tx.Commit
				if tt.rollback {
					end = d.tx.Rollback
				}
				if err := end(); !errors.Is(err, tt.err) {
					t.Errorf("%v, want %v", err, tt.err)
				}
				if done := d.state() == pgfake.StateFailed; written != tt.written || done != (written == 1) {
					t.Errorf("written %d times, want %d, and the slot is %s", written, tt.written, d.state())
				}
				must(t)(questions["dismiss"](t.Context(), d.rival, "job"))
			})
		})
	}
}

func TestStatementWithoutSenseInATransactionIsRefused(t *testing.T) {
	inTransaction(t, func(t *testing.T, d *desk) {
		if _, err := questions["dismiss"](t.Context(), db.New(d.tx), "job"); err == nil {
			t.Error("DismissLease is accepted")
		}
	})
}

package pgfake_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/internal/pgfake"
)

// The first try of a statement arrives a minute after its retry.
func TestStatementArrivesAgainAfterItsCallerHasGone(t *testing.T) {
	for name, tt := range map[string]struct {
		trouble pgfake.Trouble
		err     error
	}{
		"answered":    {trouble: pgfake.Trouble{}},
		"answer lost": {trouble: pgfake.Trouble{Loses: pgfake.ErrReset}, err: pgfake.ErrReset},
		"too slow":    {trouble: pgfake.Trouble{Slow: time.Hour}, err: context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				path, pool := open(t, tb)
				must(t)(acquire("a", 0)(t.Context(), path, "job"))
				tt.trouble.Again = time.Minute
				path.Suffer(pgfake.Only(pgfake.KindRenewOne, tt.trouble))
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				began := time.Now()
				_, err := questions["renew"](ctx, db.New(pool), "job")
				cancel()
				if !errors.Is(err, tt.err) {
					t.Errorf("%v, want %v", err, tt.err)
				}
				path.Suffer(nil)
				if renewed := tb.Row("job").RenewedAt; !renewed.Equal(began) {
					t.Fatalf("the lease was renewed at %v, want %v", renewed, began)
				}
				path.Wait()
				if got := time.Since(began); got != time.Minute {
					t.Errorf("it arrived again %v later, want a minute after the first time", got)
				}
				if renewed := tb.Row("job").RenewedAt; !renewed.Equal(began.Add(time.Minute)) {
					t.Errorf("the lease was renewed at %v: nothing arrived", renewed)
				}
				if n := len(path.Asked(time.Time{}, pgfake.KindRenewOne)); n != 1 {
					t.Errorf("%d statements were sent, want 1", n)
				}
				path.Wait() // for nothing
			})
		})
	}
}

func TestWhatTheServerNeverSawDoesNotArriveAgain(t *testing.T) {
	for name, trouble := range map[string]pgfake.Trouble{
		"refused":           {Fails: pgfake.ServerError("57014"), Again: time.Second},
		"late for its call": {Late: time.Hour, Again: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				path := pgfake.NewPath(tb)
				path.Suffer(pgfake.Always(trouble))
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if _, err := acquire("a", 0)(ctx, path, "job"); err == nil {
					t.Error("it was answered")
				}
				path.Wait()
				time.Sleep(2 * time.Hour)
				if tb.Live("job") || tb.Row("job").Token > 0 {
					t.Errorf("it was carried out: %+v", tb.Row("job"))
				}
			})
		})
	}
}

// The server does not know that nobody waits for the answer any more.
func TestStatementThatArrivesAgainWaitsForItsRow(t *testing.T) {
	inTransaction(t, func(t *testing.T, d *desk) {
		d.path.Suffer(pgfake.Only(pgfake.KindRenewOne, pgfake.Trouble{Again: time.Minute}))
		ctx, cancel := context.WithCancel(t.Context())
		must(t)(questions["renew"](ctx, d.path, "job"))
		cancel()
		unlock := d.table.Lock("job")
		time.AfterFunc(50*time.Minute, unlock) // the lease has an hour
		began := time.Now()
		d.path.Wait()
		if got := time.Since(began); got != 50*time.Minute {
			t.Errorf("it arrived again after %v", got)
		}
		if renewed := d.table.Row("job").RenewedAt; !renewed.Equal(time.Now()) {
			t.Errorf("the lease was renewed at %v, want now", renewed)
		}
	})
}

// A connection delivers each statement once, and in order.
func TestStatementOfATransactionDoesNotArriveAgain(t *testing.T) {
	inTransaction(t, func(t *testing.T, d *desk) {
		d.path.Suffer(pgfake.Always(pgfake.Trouble{Again: time.Second}))
		written := 0
		if _, err := d.tx.ExecContext(t.Context(), pgfake.Write, func() { written++ }); err != nil {
			t.Fatal(err)
		}
		d.do(t, questions["guard"])
		d.path.Wait()
		if err := d.tx.Commit(); err != nil {
			t.Fatal(err)
		}
		d.path.Wait()
		if written != 1 {
			t.Errorf("written %d times, want once", written)
		}
		must(t)(questions["dismiss"](t.Context(), d.rival, "job"))
	})
}

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

// The first try of a statement arrives a minute after its retry, when the slot is in its second
// attempt.
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
				must(t)(claim("a", 1, due)(t.Context(), path, "job"))
				tt.trouble.Again = time.Minute
				path.Suffer(pgfake.Only(pgfake.KindFinishSlot, tt.trouble))
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				_, err := finish("a", 1)(ctx, db.New(pool), "job")
				cancel()
				if !errors.Is(err, tt.err) {
					t.Errorf("%v, want %v", err, tt.err)
				}
				path.Suffer(nil)
				must(t)(questions["request"](t.Context(), path, "job"))
				must(t)(claim("a", 1, due)(t.Context(), path, "job"))

				finished := tb.Slots()[0]
				if finished.State != pgfake.StateRunning || finished.Attempt != 2 {
					t.Fatalf("the slot is %+v, want it in a second attempt", finished)
				}
				began := time.Now()
				path.Wait()
				if got := time.Since(began); got > time.Minute || got < 59*time.Second {
					t.Errorf("it arrived again %v later, want a minute after the first time", got)
				}
				if got := tb.Slots()[0].State; got != pgfake.StateFailed {
					t.Errorf("the slot is %s: nothing arrived", got)
				}
				if n := len(path.Asked(time.Time{}, pgfake.KindFinishSlot)); n != 1 {
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
		d.path.Suffer(pgfake.Only(pgfake.KindFinishSlot, pgfake.Trouble{Again: time.Minute}))
		ctx, cancel := context.WithCancel(t.Context())
		must(t)(finish("a", 1)(ctx, d.path, "job"))
		cancel()
		must(t)(questions["request"](t.Context(), d.path, "job"))
		must(t)(claim("a", 1, due)(t.Context(), d.path, "job"))
		unlock := d.table.LockSlot("job", due)
		time.AfterFunc(time.Hour, unlock)
		began := time.Now()
		d.path.Wait()
		if got := time.Since(began); got != time.Hour || d.state() != pgfake.StateFailed {
			t.Errorf("it arrived again after %v, and the slot is %s", got, d.state())
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

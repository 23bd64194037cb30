package pgfake_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/internal/pgfake"
)

// script asks every statement of db.Querier, also about rows that are not there. It returns the
// answers, a line each, that begins with the statement's name.
func script(ctx context.Context, q db.Querier) []string {
	var lines []string
	said := func(statement string) func(any, error) {
		return func(answer any, err error) {
			lines = append(lines, fmt.Sprintf("%s: %#v, %v", statement, answer, err))
		}
	}
	missed := fmt.Sprintf("[%q]", earlier.Format(time.RFC3339))
	for range 2 {
		said("ListLeases")(lift(q.ListLeases(ctx)))
		said("LeaseToken")(lift(q.LeaseToken(ctx, "job")))
		said("LookLease")(lift(q.LookLease(ctx, "job")))
		said("AcquireLease")(lift(q.AcquireLease(ctx, db.AcquireLeaseParams{
			Holder: "a", KnownToken: 4, JobName: "job", TTLSeconds: 1.5,
		})))
		said("RenewLease")(lift(q.RenewLease(ctx, db.RenewLeaseParams{
			TTLSeconds: 2.5, JobName: "job", Holder: "a", Token: 5,
		})))
		said("RenewLeases")(lift(q.RenewLeases(ctx, db.RenewLeasesParams{
			Terms:  `[{"job_name": "job", "token": 5}, {"job_name": "another", "token": 1}]`,
			Holder: "a", TTLSeconds: 3.5,
		})))
		said("LookLeases")(lift(q.LookLeases(ctx, `["another", "job"]`)))
		said("GuardLease")(lift(q.GuardLease(ctx, db.GuardLeaseParams{
			JobName: "job", Holder: "a", Token: 5,
		})))
		said("ClaimSlot")(lift(claim("a", 5, due, 0)(ctx, q, "job")))
		said("ReadSlot")(lift(q.ReadSlot(ctx, db.ReadSlotParams{JobName: "job", Slot: due})))
		said("GiveBackSlot")(lift(q.GiveBackSlot(ctx, db.GiveBackSlotParams{
			JobName: "job", Slot: due, Holder: "a", Token: 5, Attempt: 2, Error: "not begun",
		})))
		said("FinishSlot")(lift(finish("a", 5)(ctx, q, "job")))
		said("MissSlots")(lift(q.MissSlots(ctx, db.MissSlotsParams{
			Token: 5, Holder: "a", Error: "nobody came", Slots: missed, JobName: "job",
		})))
		said("AbandonSlots")(lift(q.AbandonSlots(ctx, db.AbandonSlotsParams{
			JobName: "job", RepeatFailed: true, MaxAttempts: 3, Since: due, Holder: "a", Token: 5,
		})))
		said("RequestSlot")(lift(q.RequestSlot(ctx, db.RequestSlotParams{
			Error: "again", JobName: "job", Slot: due, Attempt: 1,
		})))
		said("ListSlots")(lift(q.ListSlots(ctx, db.ListSlotsParams{JobName: "job", MaxRows: 2})))
		said("PruneSlots")(lift(q.PruneSlots(ctx, db.PruneSlotsParams{
			JobName: "job", KeepSeconds: 60.5, MaxRows: 1,
		})))
		said("SurveySlots")(lift(q.SurveySlots(ctx, "job")))
		said("DismissLease")(lift(q.DismissLease(ctx, db.DismissLeaseParams{
			DismissedBy: "operator", JobName: "job", Token: 5,
		})))
		row, _ := q.LookLease(ctx, "job")
		said("FreeLease")(lift(q.FreeLease(ctx, db.FreeLeaseParams{
			JobName: "job", Token: row.LeaderLease.Token, RenewedAt: row.LeaderLease.RenewedAt,
		})))
		said("ReleaseLease")(lift(q.ReleaseLease(ctx, db.ReleaseLeaseParams{
			JobName: "job", Holder: "a", Token: 5,
		})))
	}
	return lines
}

// lift makes one type of all answers.
func lift[T any](answer T, err error) (any, error) { return answer, err }

func TestPoolAnswersLikeThePath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, pool := open(t, pgfake.NewTable())
		overPath := script(t.Context(), pgfake.NewPath(pgfake.NewTable()))
		overPool := script(t.Context(), db.New(pool))
		asked := make(map[string]bool)
		for i, want := range overPath {
			if got := overPool[i]; got != want {
				t.Errorf("over the pool %s\nover the path %s", got, want)
			}
			name, _, _ := strings.Cut(want, ":")
			asked[name] = true
		}
		for method := range reflect.TypeFor[db.Querier]().Methods() {
			if !asked[method.Name] {
				t.Errorf("%s was not compared", method.Name)
			}
		}
	})
}

func TestPoolRefusesWhatItDoesNotKnow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, pool := open(t, pgfake.NewTable())
		for _, query := range []string{"SELECT 1", "-- name: Suffer :exec", pgfake.Write} {
			if _, err := pool.ExecContext(t.Context(), query); err == nil {
				t.Errorf("%q is accepted", query)
			}
		}
		for _, args := range [][]any{{"job", 1, 2}, {"job", "a", nil}, {"job"}} {
			var token int64
			row := pool.QueryRowContext(t.Context(), "-- name: GuardLease :one\n", args...)
			if err := row.Scan(&token); err == nil || errors.Is(err, sql.ErrNoRows) {
				t.Errorf("the parameters %v are accepted", args)
			}
		}
		opts := &sql.TxOptions{Isolation: sql.LevelSerializable}
		if _, err := pool.BeginTx(t.Context(), opts); err == nil {
			t.Error("a serializable transaction is accepted")
		}
	})
}

func TestNoRowsAreAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path, pool := open(t, pgfake.NewTable())
		path.Suffer(pgfake.Always(pgfake.Trouble{Fails: sql.ErrNoRows}))
		if rows, err := db.New(pool).ListLeases(t.Context()); len(rows) > 0 || err != nil {
			t.Errorf("%v, %v; want no rows", rows, err)
		}
		if _, err := db.New(pool).LeaseToken(t.Context(), "job"); !errors.Is(err, sql.ErrNoRows) {
			t.Errorf("%v, want sql.ErrNoRows", err)
		}
	})
}

func TestTroublesComeOverThePoolToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path, pool := open(t, pgfake.NewTable())
		path.Suffer(pgfake.Always(pgfake.Trouble{Late: time.Second, Slow: time.Second}))
		began := time.Now()
		_, err := db.New(pool).ListLeases(t.Context())
		if err != nil || time.Since(began) != 2*time.Second {
			t.Errorf("%v after %v, want an answer after 2s", err, time.Since(began))
		}

		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		began = time.Now()
		_, err = db.New(pool).ListLeases(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 1500*time.Millisecond {
			t.Errorf("%v after %v, want the end of the context", err, time.Since(began))
		}

		path.Suffer(pgfake.Always(pgfake.Trouble{Fails: pgfake.ServerError("25006")}))
		var state interface{ SQLState() string }
		_, err = db.New(pool).ListLeases(t.Context())
		if !errors.As(err, &state) || state.SQLState() != "25006" {
			t.Errorf("%v, want SQLSTATE 25006", err)
		}

		path.Suffer(pgfake.Only(pgfake.KindAcquire, pgfake.Trouble{Loses: pgfake.ErrReset}))
		if _, err := acquire("a", 0)(t.Context(), db.New(pool), "job"); !errors.Is(err, pgfake.ErrReset) {
			t.Errorf("%v, want ErrReset", err)
		}
		if token, err := db.New(pool).LeaseToken(t.Context(), "job"); token != 1 || err != nil {
			t.Errorf("token %d, %v: what lost its answer was not done", token, err)
		}
	})
}

func TestCallThatHangsIsKeptUntilUnhang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path, pool := open(t, pgfake.NewTable())
		path.Suffer(pgfake.Always(pgfake.Trouble{Hangs: true}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		answers := make(chan error)
		go func() {
			_, err := db.New(pool).ListLeases(ctx)
			answers <- err
		}()
		time.Sleep(time.Hour)
		if n := path.Kept(); n != 1 {
			t.Errorf("%d calls are kept, want 1", n)
		}
		path.Unhang()
		if err := <-answers; !errors.Is(err, pgfake.ErrReset) {
			t.Errorf("%v, want ErrReset", err)
		}
		if n, inUse := path.Kept(), pool.Stats().InUse; n != 0 || inUse != 0 {
			t.Errorf("%d calls are kept, %d connections in use", n, inUse)
		}
	})
}

func TestOnlyErrorsOfTheServerLeaveTheConnection(t *testing.T) {
	for name, tt := range map[string]struct {
		trouble pgfake.Trouble
		open    int
	}{
		"none":         {pgfake.Trouble{}, 1},
		"no row":       {pgfake.Trouble{Fails: sql.ErrNoRows}, 1},
		"server error": {pgfake.Trouble{Fails: pgfake.ServerError("57014")}, 1},
		"reset":        {pgfake.Trouble{Loses: pgfake.ErrReset}, 0},
		"too slow":     {pgfake.Trouble{Slow: time.Hour}, 0},
		"dead":         {pgfake.Trouble{Fails: driver.ErrBadConn}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path, pool := open(t, pgfake.NewTable())
				path.Suffer(pgfake.Always(tt.trouble))
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, _ = db.New(pool).LookLease(ctx, "job")
				if n := pool.Stats().OpenConnections; n != tt.open {
					t.Errorf("%d connections are open, want %d", n, tt.open)
				}
			})
		})
	}
}

// A pool asks again on other connections, for nothing was sent on the dead one.
func TestDeadConnectionsCostThePoolNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path, pool := open(t, pgfake.NewTable())
		path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
			if s.Nth <= 2 {
				return pgfake.Trouble{Fails: driver.ErrBadConn}
			}
			return pgfake.Trouble{}
		})
		if _, err := db.New(pool).ListLeases(t.Context()); err != nil {
			t.Error(err)
		}
		path.Disconnect()
		path.DialSlowly(time.Second)
		began, before := time.Now(), len(path.Asked(time.Time{}))
		if _, err := db.New(pool).ListLeases(t.Context()); err != nil {
			t.Error(err)
		}
		if n := len(path.Asked(time.Time{})) - before; n != 1 || time.Since(began) != time.Second {
			t.Errorf("asked %d times, want once and on a new connection", n)
		}
	})
}

func TestNoConnectionComesFreeWhileStarved(t *testing.T) {
	for _, pooled := range []bool{false, true} {
		t.Run(fmt.Sprintf("pooled %v", pooled), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path, pool := open(t, pgfake.NewTable())
				if pooled {
					if _, err := db.New(pool).ListLeases(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				path.Starve()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				_, err := pool.Conn(ctx)
				if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute {
					t.Errorf("%v after %v, want the end of the context", err, time.Since(began))
				}
			})
		})
	}
}

func TestConnectionIsSlowToOpenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path, pool := open(t, pgfake.NewTable())
		path.DialSlowly(3 * time.Second)
		for _, want := range []time.Duration{3 * time.Second, 0} {
			began := time.Now()
			if _, err := db.New(pool).ListLeases(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := time.Since(began); got != want {
				t.Errorf("answered after %v, want %v", got, want)
			}
		}
	})
}

package pgfake_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/internal/pgfake"
	"github.com/pgleader/pgleader/internal/pgtest"
)

// A situation is what is open while a question is asked, until end is called.
type situation struct {
	before []question // apart from a's claims of the job and of the slot
	open   func(t *testing.T, side side) (end func(commit bool) error)
}

// A side is one of the two databases. table is nil for Postgres.
type side struct {
	pool  *sql.DB
	table *pgfake.Table
	job   string
}

var situations = map[string]situation{
	"a guarded transaction finishes the slot": {
		open: inTx(questions["guard"], finish("a", 1)),
	},
	"a transaction finishes the slot, and its term is over": {
		before: []question{release, acquire("b", 0)},
		open:   inTx(finish("a", 1)),
	},
	"somebody has updated the lease": {
		open: func(t *testing.T, side side) func(bool) error {
			if side.table != nil {
				return unlocked(side.table.Lock(side.job))
			}
			return updated(t, side, `UPDATE leader_lease SET holder = holder WHERE job_name = $1`)
		},
	},
	"somebody has updated the slot": {open: updatedSlots(due)},
	"somebody has updated decided slots": {
		before: []question{claim("a", 1, earlier, 0), finishAt("a", 1, earlier), finish("a", 1)},
		open:   updatedSlots(earlier, due),
	},
}

// inTx asks questions in a transaction.
func inTx(inside ...question) func(*testing.T, side) func(bool) error {
	return func(t *testing.T, side side) func(bool) error {
		t.Helper()
		tx, err := side.pool.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, ask := range inside {
			must(t)(ask(t.Context(), db.New(tx), side.job))
		}
		return ended(tx)
	}
}

func updated(t *testing.T, side side, update string) func(bool) error {
	t.Helper()
	tx, err := side.pool.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), update, side.job); err != nil {
		t.Fatal(err)
	}
	return ended(tx)
}

func ended(tx *sql.Tx) func(bool) error {
	return func(commit bool) error {
		if commit {
			return tx.Commit()
		}
		return tx.Rollback()
	}
}

func unlocked(unlocks ...func()) func(bool) error {
	return func(bool) error {
		for _, unlock := range unlocks {
			unlock()
		}
		return nil
	}
}

// updatedSlots updates all slots that the job has.
func updatedSlots(slots ...time.Time) func(*testing.T, side) func(bool) error {
	return func(t *testing.T, side side) func(bool) error {
		t.Helper()
		if side.table == nil {
			return updated(t, side, `UPDATE leader_slot SET error = error WHERE job_name = $1`)
		}
		var unlocks []func()
		for _, slot := range slots {
			unlocks = append(unlocks, side.table.LockSlot(side.job, slot))
		}
		return unlocked(unlocks...)
	}
}

func TestOpenTransactionHoldsUpTheSameStatementsAsInPostgres(t *testing.T) {
	t.Parallel()
	for _, driver := range pgtest.Drivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Open(t, driver, withLockTimeout(t, pgtest.NewURL(t)))
			for where, situation := range situations {
				for what, ask := range questions {
					for _, commit := range []bool{false, true} {
						job := fmt.Sprintf("%s: %s, commit %v", where, what, commit)
						postgres := tell(t, side{pool: pool, job: job}, situation, ask, commit)
						var memory string
						synctest.Test(t, func(t *testing.T) {
							tb := pgfake.NewTable()
							_, pool := open(t, tb)
							memory = tell(t, side{pool, tb, job}, situation, ask, commit)
						})
						if memory != postgres {
							t.Errorf("%s:\nin memory %s\nPostgres  %s", job, memory, postgres)
						}
					}
				}
			}
		})
	}
}

// withLockTimeout makes a statement fail that waits for a row.
func withLockTimeout(t *testing.T, rawURL string) string {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("lock_timeout", "50")
	u.RawQuery = query.Encode()
	return u.String()
}

// tell asks a question in a situation. It returns the answer, or that there is none yet, and what
// the slots are when the situation is over.
func tell(t *testing.T, side side, in situation, ask question, commit bool) string {
	t.Helper()
	q := db.New(side.pool)
	for _, step := range append([]question{acquire("a", 0), claim("a", 1, due, 0)}, in.before...) {
		must(t)(step(t.Context(), q, side.job))
	}
	end := in.open(t, side)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	answer := answerOf(ask(ctx, q, side.job))
	if err := end(commit); err != nil {
		t.Fatal(err)
	}
	rows, err := q.ListSlots(t.Context(), db.ListSlotsParams{JobName: side.job, MaxRows: 10})
	if err != nil {
		t.Fatal(err)
	}
	lines := []string{answer}
	for _, row := range rows {
		lines = append(lines,
			fmt.Sprintln(instants(row.Slot), row.State, row.Attempt, row.Token, row.Error))
	}
	return strings.Join(lines, "; ")
}

func answerOf(answer any, err error) string {
	var state interface{ SQLState() string }
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "no row"
	case errors.Is(err, context.DeadlineExceeded), // in memory
		errors.As(err, &state) && state.SQLState() == "55P03": // lock_not_available
		return "waits"
	case err != nil:
		return err.Error()
	}
	return fmt.Sprintf("%+v", answer)
}

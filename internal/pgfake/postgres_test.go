package pgfake_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/internal/pgfake"
)

// The tests that run on the table in memory are worth as much as it is like the one in Postgres.
// Both are asked the same, at random.
func TestTableInMemoryAnswersLikePostgres(t *testing.T) {
	t.Parallel()
	onPostgres(t, func(t *testing.T, pool *sql.DB) {
		var jobs atomic.Int64
		rapid.Check(t, func(rt *rapid.T) {
			tb := pgfake.NewTable()
			path := pgfake.NewPath(tb)
			c := comparison{
				job:      fmt.Sprint("job ", jobs.Add(1)),
				table:    tb,
				memory:   path,
				postgres: db.New(pool),
				pool:     pool,
				base:     time.Now().UTC().Truncate(time.Microsecond),
			}
			if rapid.Bool().Draw(rt, "over database/sql") {
				memory := path.OpenDB()
				defer memory.Close()
				c.memory = db.New(memory)
			}
			rt.Repeat(map[string]func(*rapid.T){
				"acquire":   c.acquire,
				"release":   c.release,
				"expire":    c.expire,
				"claim":     c.claim,
				"give back": c.giveBack,
				"finish":    c.finish,
				"abandon":   c.abandon,
				"miss":      c.miss,
				"request":   c.request,
				"dismiss":   c.dismiss,
				"prune":     c.prune,
				"read":      c.read,
				"survey":    c.survey,
				"guard":     c.guard,
				"token":     c.token,
				"":          c.rows,
			})
		})
	})
}

// A comparison puts the same questions to both tables. Its slots lie an hour apart, so that it does
// not matter which one answers later.
type comparison struct {
	job      string
	table    *pgfake.Table
	memory   db.Querier
	postgres db.Querier
	pool     *sql.DB
	base     time.Time
}

// both asks both tables, and compares what is made of their answers.
func both[T any](t *rapid.T, c *comparison, what any, ask func(db.Querier) (T, error)) {
	t.Helper()
	text := func(answer T, err error) string {
		if errors.Is(err, sql.ErrNoRows) {
			return "no row"
		}
		if err != nil {
			t.Fatalf("%T: %v", what, err)
		}
		return fmt.Sprintf("%+v", answer)
	}
	memory, postgres := text(ask(c.memory)), text(ask(c.postgres))
	if memory != postgres {
		t.Fatalf("%T%+v:\n in memory %s\n Postgres  %s", what, what, memory, postgres)
	}
}

// slot draws one of three instants that have come, or one that has not, with a part that Postgres
// does not store.
func (c *comparison) slot(t *rapid.T) time.Time {
	minutes := 60*rapid.IntRange(-2, 1).Draw(t, "hours") - 30
	below := time.Duration(rapid.IntRange(0, 499).Draw(t, "nanoseconds")) // lib/pq has it rounded
	return c.base.Add(time.Duration(minutes)*time.Minute + below)
}

func drawHolder(t *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "b"}).Draw(t, "holder")
}

// term draws the job's last term, or one that is like it.
func (c *comparison) term(t *rapid.T) (holder string, token int64) {
	lease := c.table.Row(c.job)
	token = lease.Token + rapid.SampledFrom([]int64{0, 0, 0, 0, -1, 1}).Draw(t, "token")
	return rapid.SampledFrom([]string{lease.Holder, lease.Holder, "a", "b"}).Draw(t, "holder"), token
}

func (c *comparison) acquire(t *rapid.T) {
	arg := db.AcquireLeaseParams{
		JobName: c.job, Holder: drawHolder(t), KnownToken: c.table.Row(c.job).Token, TTLSeconds: 3600,
	}
	both(t, c, arg, func(q db.Querier) (any, error) {
		row, err := q.AcquireLease(t.Context(), arg)
		return []any{row.Acquired, row.Holder, row.Token, row.TimeLeft > 0}, err
	})
}

func (c *comparison) release(t *rapid.T) {
	holder, token := c.term(t)
	arg := db.ReleaseLeaseParams{JobName: c.job, Holder: holder, Token: token}
	both(t, c, arg, func(q db.Querier) (int64, error) { return q.ReleaseLease(t.Context(), arg) })
}

func (c *comparison) expire(t *rapid.T) {
	if c.table.Row(c.job).Token == 0 {
		return // nobody has led it
	}
	c.table.Free(c.job)
	const end = `UPDATE leader_lease SET expires_at = clock_timestamp() WHERE job_name = $1`
	if _, err := c.pool.ExecContext(t.Context(), end, c.job); err != nil {
		t.Fatal(err)
	}
}

func (c *comparison) claim(t *rapid.T) {
	holder, token := c.term(t)
	arg := db.ClaimSlotParams{
		JobName: c.job, Holder: holder, Token: token, Slot: c.slot(t),
		LastAttempt:  rapid.Int32Range(0, 2).Draw(t, "last attempt"),
		MaxAttempts:  rapid.Int32Range(1, 4).Draw(t, "attempts"),
		RepeatFailed: rapid.Bool().Draw(t, "repeat failed"),
	}
	both(t, c, arg, func(q db.Querier) (db.ClaimSlotRow, error) {
		return q.ClaimSlot(t.Context(), arg)
	})
}

var finalStates = []string{pgfake.StateDone, pgfake.StateFailed, pgfake.StateAbandoned}

func (c *comparison) finish(t *rapid.T) {
	holder, token := c.term(t)
	arg := db.FinishSlotParams{
		JobName: c.job, Holder: holder, Token: token, Slot: c.slot(t),
		Attempt: rapid.Int32Range(0, 3).Draw(t, "attempt"),
		State:   rapid.SampledFrom(finalStates).Draw(t, "state"),
		Error:   rapid.SampledFrom([]string{"", "it went wrong"}).Draw(t, "error"),
	}
	both(t, c, arg, func(q db.Querier) (int64, error) { return q.FinishSlot(t.Context(), arg) })
}

func (c *comparison) giveBack(t *rapid.T) {
	holder, token := c.term(t)
	arg := db.GiveBackSlotParams{
		JobName: c.job, Holder: holder, Token: token, Slot: c.slot(t),
		Attempt: rapid.Int32Range(0, 3).Draw(t, "attempt"), Error: "not begun",
		KeepRequest: rapid.Bool().Draw(t, "keep request"),
	}
	both(t, c, arg, func(q db.Querier) (int64, error) { return q.GiveBackSlot(t.Context(), arg) })
}

func (c *comparison) abandon(t *rapid.T) {
	holder, token := c.term(t)
	arg := db.AbandonSlotsParams{
		JobName: c.job, Holder: holder, Token: token, Since: c.slot(t), FirstSince: c.slot(t),
		MaxAttempts:  rapid.Int32Range(1, 4).Draw(t, "attempts"),
		RepeatFailed: rapid.Bool().Draw(t, "repeat failed"),
	}
	both(t, c, arg, func(q db.Querier) ([]string, error) {
		slots, err := q.AbandonSlots(t.Context(), arg)
		return restarts(slots), err
	})
}

func (c *comparison) miss(t *rapid.T) {
	holder, token := c.term(t)
	slots := []time.Time{} // not null in JSON
	for range rapid.IntRange(0, 3).Draw(t, "slots") {
		slots = append(slots, c.slot(t))
	}
	text, err := json.Marshal(slots)
	if err != nil {
		t.Fatal(err)
	}
	arg := db.MissSlotsParams{
		JobName: c.job, Holder: holder, Token: token, Slots: string(text), Error: "nobody came",
	}
	both(t, c, arg, func(q db.Querier) (int64, error) { return q.MissSlots(t.Context(), arg) })
}

func (c *comparison) request(t *rapid.T) {
	arg := db.RequestSlotParams{
		JobName: c.job, Slot: c.slot(t), Error: "requested",
		Attempt: rapid.Int32Range(0, 3).Draw(t, "attempt"),
	}
	both(t, c, arg, func(q db.Querier) (int64, error) { return q.RequestSlot(t.Context(), arg) })
}

func (c *comparison) dismiss(t *rapid.T) {
	_, token := c.term(t)
	arg := db.DismissLeaseParams{JobName: c.job, DismissedBy: "operator", Token: token}
	both(t, c, arg, func(q db.Querier) (int64, error) { return q.DismissLease(t.Context(), arg) })
}

func (c *comparison) prune(t *rapid.T) {
	arg := db.PruneSlotsParams{
		JobName:     c.job,
		KeepSeconds: time.Hour.Seconds() * float64(rapid.IntRange(0, 4).Draw(t, "keep")),
		MaxRows:     rapid.Int32Range(0, 3).Draw(t, "rows"),
	}
	both(t, c, arg, func(q db.Querier) (int64, error) { return q.PruneSlots(t.Context(), arg) })
}

func (c *comparison) read(t *rapid.T) {
	arg := db.ReadSlotParams{JobName: c.job, Slot: c.slot(t)}
	both(t, c, arg, func(q db.Querier) (any, error) {
		row, err := q.ReadSlot(t.Context(), arg)
		return []any{row.State, row.Attempt, row.Token}, err
	})
}

func (c *comparison) survey(t *rapid.T) {
	both(t, c, c.job, func(q db.Querier) (any, error) {
		row, err := q.SurveySlots(t.Context(), c.job)
		renewed := row.RenewedAt
		return []any{
			instants(row.Newest), row.Requested, renewed.Unix() == 0, renewed.After(row.Now),
		}, err
	})
}

func (c *comparison) guard(t *rapid.T) {
	holder, token := c.term(t)
	arg := db.GuardLeaseParams{JobName: c.job, Holder: holder, Token: token}
	both(t, c, arg, func(q db.Querier) (int64, error) { return q.GuardLease(t.Context(), arg) })
}

func (c *comparison) token(t *rapid.T) {
	both(t, c, c.job, func(q db.Querier) (int64, error) { return q.LeaseToken(t.Context(), c.job) })
}

// rows compares all that the tables hold.
func (c *comparison) rows(t *rapid.T) {
	arg := db.ListSlotsParams{JobName: c.job, MaxRows: 100}
	both(t, c, arg, func(q db.Querier) ([]string, error) {
		rows, err := q.ListSlots(context.Background(), arg)
		var lines []string
		for _, row := range rows {
			lines = append(lines, fmt.Sprintln(instants(row.Slot), row.State, row.Attempt, row.Token,
				row.Holder, row.StartedAt.Valid, row.FinishedAt.Valid, row.Error))
		}
		return lines, err
	})
}

func restarts(slots []db.AbandonSlotsRow) []string {
	var texts []string
	for _, row := range slots {
		texts = append(texts, fmt.Sprint(instants(row.Slot), row.Attempt))
	}
	return texts
}

func instants(times ...time.Time) []string {
	var texts []string
	for _, at := range times {
		texts = append(texts, at.UTC().Format(time.RFC3339Nano))
	}
	return texts
}

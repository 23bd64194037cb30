package leader

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pgleader/pgleader/db"
)

// SlotRun is the record of one slot.
type SlotRun struct {
	Job        string
	Slot       time.Time
	State      SlotState
	Attempt    int       // how often it was started, 0 if it was missed
	Token      int64     // of the term that started it last, or recorded it as missed
	Holder     string    // of that term
	StartedAt  time.Time // when its last attempt began, by the database's clock; zero if it was missed
	FinishedAt time.Time // when its state became final, by the database's clock; zero while it is running
	Error      string    // why it failed, was abandoned or was missed
}

// History returns a job's latest slots, newest first, at most limit of them: what ran, what did not, and why.
func (e *Elector) History(ctx context.Context, job string, limit int) ([]SlotRun, error) {
	if err := CheckJob(job); err != nil {
		return nil, err
	}
	limit = max(0, min(limit, 1<<31-1))
	runs, err := askAmongRivals(ctx, e, func(ctx context.Context, q db.Querier) ([]SlotRun, error) {
		rows, err := q.ListSlots(ctx, db.ListSlotsParams{JobName: job, MaxRows: int32(limit)}) //nolint:gosec // in range
		runs := make([]SlotRun, len(rows))
		for i, row := range rows {
			runs[i] = SlotRun{
				Job:        row.JobName,
				Slot:       row.Slot.UTC(),
				State:      SlotState(row.State),
				Attempt:    int(row.Attempt),
				Token:      row.Token,
				Holder:     row.Holder,
				StartedAt:  row.StartedAt.Time,
				FinishedAt: row.FinishedAt.Time,
				Error:      row.Error,
			}
		}
		return runs, err
	})
	if err != nil {
		return nil, fmt.Errorf("leader: history of %q: %w", job, err)
	}
	return runs, nil
}

// slotTime checks an instant and brings it to the database's precision, so that it is the same slot on its way there and back.
func slotTime(at time.Time) (time.Time, error) {
	at = at.UTC().Truncate(time.Microsecond)
	if at.Year() < 1970 || at.Year() > 9999 {
		return at, fmt.Errorf("%w: %s", ErrSlotTime, at.Format(time.RFC3339Nano))
	}
	return at, nil
}

// storable makes a text fit for a column: Postgres takes neither NUL nor bad UTF-8, and nobody reads a megabyte.
func storable(text string) string {
	const limit = 4000
	return strings.ReplaceAll(strings.ToValidUTF8(text[:min(len(text), limit)], "?"), "\x00", "?")
}

// plain makes a text fit for a database in any encoding.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r > 0x7e {
			return '?'
		}
		return r
	}, text)
}

// askTerm asks on behalf of a live term, and again after a passing failure, until the term or ctx ends.
func askTerm[T any](ctx context.Context, t *Term, question func(context.Context, db.Querier) (T, error)) (T, error) {
	return askWhile(ctx, t, passing, question)
}

// insist is askTerm for what must not be left undone: it asks again after every failure that may pass.
func insist[T any](ctx context.Context, t *Term, question func(context.Context, db.Querier) (T, error)) (T, error) {
	return askWhile(ctx, t, func(err error) bool { return !hopeless(err) && !errors.Is(err, sql.ErrNoRows) }, question)
}

func askWhile[T any](
	ctx context.Context, t *Term, again func(error) bool, question func(context.Context, db.Querier) (T, error),
) (T, error) {
	for {
		value, err := ask(ctx, t.elector, question)
		if err == nil || !again(err) {
			return value, err
		}
		if lost := t.check(); lost != nil {
			return value, fmt.Errorf("%w (%w)", lost, err)
		}
		if sleep(ctx, t.elector.retryPause) != nil {
			return value, err
		}
	}
}

// askAmongRivals asks on behalf of no term, and again at once if the server gives the statement up in favour of a concurrent
// one.
func askAmongRivals[T any](
	ctx context.Context, e *Elector, question func(context.Context, db.Querier) (T, error),
) (T, error) {
	for {
		value, err := ask(ctx, e, question)
		if !rivalry(err) || ctx.Err() != nil {
			return value, err
		}
	}
}

// sleep waits, or returns ctx's error as soon as it ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

package schedule

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/internal/pgcall"
	"github.com/pgleader/pgleader/leader"
)

// State says what became of a slot. Done, failed and missed are final, unless somebody asks for
// another run; an abandoned slot is run again while its policy allows.
type State string

// The states of a slot.
const (
	StateRunning   State = "running"   // its work runs, or its process died and nobody has noticed yet
	StateDone      State = "done"      // its work returned nil, or completed it
	StateFailed    State = "failed"    // its work returned an error
	StateAbandoned State = "abandoned" // its term ended, or a shutdown came, before its work had
	StateMissed    State = "missed"    // nobody could start it in time, or a later one was due
	StateRequested State = "requested" // it was decided, and is to be run again: see Rerun
)

// Slot is one scheduled occurrence of a job, while its work runs.
type Slot struct {
	term       *leader.Term
	holder     string
	at         time.Time
	attempt    int
	completing atomic.Bool // Complete was called
}

// Time returns the instant of the schedule, in UTC, with the database's precision of a microsecond.
func (s *Slot) Time() time.Time { return s.at }

// Attempt returns 1 for the first run of the slot, and more for a run after a crash or an error.
func (s *Slot) Attempt() int { return s.attempt }

// Term returns the term under which the slot runs, for its token and its guard.
func (s *Slot) Term() *leader.Term { return s.term }

// String returns the job and the instant, for messages.
func (s *Slot) String() string { return slotName(s.term.Job(), s.at) }

func slotName(job string, at time.Time) string {
	return fmt.Sprintf("%q slot %s", job, at.Format(time.RFC3339Nano))
}

// Complete finishes the slot as done inside tx, under the term's guard: what tx writes and "this
// slot is done" commit together or not at all, and nobody begins to lead the job before tx has
// ended. That is exactly once for everything that is in this database. A mail or an HTTP call is
// not: send it from a table that tx writes, or live with a second one after a crash.
//
// Call it first in a transaction that was begun in the work. Commit before the work returns: what
// becomes of the slot can't be recorded while tx holds its row. An error that work returns after
// the commit is reported, and the slot stays done.
//
// It returns leader.ErrLost if the term is over, ErrSlotDecided if this attempt is finished
// already, and otherwise the database's error: roll back on each of them. If tx does not commit and
// the work returns nil all the same, the slot is failed.
func (s *Slot) Complete(ctx context.Context, tx *sql.Tx) error {
	s.completing.Store(true)
	if err := s.term.Guard(ctx, tx); err != nil {
		return err
	}
	n, err := db.New(tx).FinishSlot(ctx, s.finish(StateDone, ""))
	switch {
	case err != nil:
		return fmt.Errorf("schedule: complete %v: %w", s, pgcall.Explain(err))
	case n == 0:
		return fmt.Errorf("schedule: complete %v: %w", s, ErrSlotDecided)
	}
	return nil
}

func (s *Slot) finish(state State, why string) db.FinishSlotParams {
	return db.FinishSlotParams{
		JobName: s.term.Job(),
		Slot:    s.at,
		Holder:  s.holder,
		Token:   s.term.Token(),
		Attempt: int32(s.attempt), //nolint:gosec // the column's type
		State:   string(state),
		Error:   storable(why),
	}
}

// slotTime checks an instant and brings it to the database's precision, so that it is the same slot
// on its way there and back.
func slotTime(at time.Time) (time.Time, error) {
	at = ceil(at)
	if at.Year() < 1970 || at.Year() > 9999 {
		return at, fmt.Errorf("%w: %s", ErrSlotTime, at.Format(time.RFC3339Nano))
	}
	return at, nil
}

// storable makes a text fit for a column: Postgres takes neither NUL nor bad UTF-8, and nobody
// reads a megabyte.
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

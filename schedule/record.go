package schedule

import (
	"context"
	"fmt"
	"time"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/internal/pgcall"
	"github.com/pgleader/pgleader/leader"
)

// Record is what the database knows about one slot. Its times are by the database's clock.
type Record struct {
	Job        string
	Slot       time.Time
	State      State
	Attempt    int       // how often it was started, 0 if never
	Token      int64     // of the term that started it last, or recorded it as missed
	Holder     string    // of that term
	StartedAt  time.Time // when the last attempt began whose work was; zero if none
	FinishedAt time.Time // when that ended, or it was recorded as missed; or zero
	Error      string    // why it failed, was abandoned or missed, or who requested it
}

// History returns a job's latest slots, newest first, at most limit of them: what ran, what did
// not, and why. A slot that nobody has started, nor recorded as missed, is not on record.
func (s *Scheduler) History(ctx context.Context, job string, limit int) ([]Record, error) {
	if err := leader.CheckJob(job); err != nil {
		return nil, err
	}
	limit = max(0, min(limit, 1<<31-1))
	arg := db.ListSlotsParams{JobName: job, MaxRows: int32(limit)} //nolint:gosec // in range
	records, err := pgcall.AskAmongRivals(ctx, s.calls,
		func(ctx context.Context, q db.Querier) ([]Record, error) {
			rows, err := q.ListSlots(ctx, arg)
			records := make([]Record, len(rows))
			for i, row := range rows {
				records[i] = recordOf(row)
			}
			return records, err
		})
	if err != nil {
		return nil, fmt.Errorf("schedule: history of %q: %w", job, err)
	}
	return records, nil
}

func recordOf(row db.LeaderSlot) Record {
	return Record{
		Job:        row.JobName,
		Slot:       row.Slot.UTC(),
		State:      State(row.State),
		Attempt:    int(row.Attempt),
		Token:      row.Token,
		Holder:     row.Holder,
		StartedAt:  row.StartedAt.Time,
		FinishedAt: row.FinishedAt.Time,
		Error:      row.Error,
	}
}

// Rerun asks for another run of a slot that is decided, also of one that was missed: whoever leads
// the job by Run runs it within half a minute, and RunDue and RunSlot run it when they are called.
// Its attempts go on counting, and do not limit this run. If that run is cut off too, ask again;
// one that a shutdown gave back is still requested.
//
// It returns ErrNoSlot for a slot that is not on record, or is running.
func (s *Scheduler) Rerun(ctx context.Context, job string, slot time.Time) error {
	if err := leader.CheckJob(job); err != nil {
		return err
	}
	at, err := slotTime(slot)
	if err != nil {
		return err
	}
	for {
		row, err := pgcall.AskAmongRivals(ctx, s.calls, s.readSlot(job, at))
		switch {
		case err != nil:
			return fmt.Errorf("schedule: request %s: %w", slotName(job, at), err)
		case State(row.State) == StateRequested:
			return nil
		case row.State == "", State(row.State) == StateRunning:
			return fmt.Errorf("%w: %s", ErrNoSlot, slotName(job, at))
		}
		arg := db.RequestSlotParams{
			JobName: job,
			Slot:    at,
			Attempt: row.Attempt,
			Error:   "requested by " + s.elector.Holder(),
		}
		request := func(ctx context.Context, q db.Querier) (int64, error) {
			return q.RequestSlot(ctx, arg)
		}
		n, err := pgcall.AskAmongRivals(ctx, s.calls, request)
		switch {
		case err != nil:
			return fmt.Errorf("schedule: request %s: %w", slotName(job, at), err)
		case n > 0:
			return nil
		} // it was started meanwhile: look again
	}
}

package schedule

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"
)

// instance is an elector of a process that has just started, whose clock may be wrong.
func instance(t *testing.T, pool *sql.DB, wrong time.Duration) *Elector {
	t.Helper()
	e, err := New(pool, Config{RetryEvery: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	e.wall = func() time.Time { return time.Now().Add(wrong).Round(0) }
	return e
}

// A roll is a schedule of some instants.
type roll []time.Time

func (r roll) Next(after time.Time) time.Time {
	for _, at := range r {
		if at.After(after) {
			return at
		}
	}
	return time.Time{}
}

// Neither a restart, another holder nor a clock that was set back starts it once more.
func TestFinishedSlotIsNeverRunAgain(t *testing.T) {
	t.Parallel()
	failure := errors.New("mail server said no")
	for _, tt := range []struct {
		name      string
		scheduled bool // by RunSchedule, else by RunSlot
		policy    Policy
		err       error // of the work
		state     SlotState
	}{
		{"done by one call", false, Policy{}, nil, SlotDone},
		{"failed by one call", false, Policy{}, failure, SlotFailed},
		{"done by the schedule", true, Policy{CatchUp: CatchUpAll}, nil, SlotDone},
		{"failed by the schedule", true, Policy{CatchUp: CatchUpAll}, failure, SlotFailed},
		{"missed", true, Policy{Grace: time.Nanosecond}, nil, SlotMissed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onPostgres(t, func(t *testing.T, pool *sql.DB) {
				slot := serverTime(t, pool).Add(-time.Minute)
				first := instance(t, pool, 0)
				once := func(e *Elector, at time.Time, work func() error) (bool, error) {
					return e.RunSlot(t.Context(), "job", at, func(context.Context, *Slot) error { return work() })
				}
				work := func() error { return tt.err }
				if ran, err := once(first, slot.Add(-time.Hour), func() error { return nil }); !ran || err != nil {
					t.Fatal(ran, err)
				}
				if tt.scheduled {
					passBy(t, pool, first, tt.policy, slot, work)
				} else if ran, err := once(first, slot, work); !ran || !errors.Is(err, tt.err) {
					t.Fatal(ran, err)
				}
				before := recordOf(t, first, slot)
				if before.State != tt.state {
					t.Fatalf("the slot is %s, want %s", before.State, tt.state)
				}

				again := func() error {
					t.Error("it is run again")
					return failure
				}
				for _, wrong := range []time.Duration{0, -2 * time.Hour} {
					passBy(t, pool, instance(t, pool, wrong), Policy{CatchUp: CatchUpAll}, slot, again)
					if ran, err := once(instance(t, pool, wrong), slot, again); ran || err != nil {
						t.Errorf("RunSlot = %v, %v; want neither", ran, err)
					}
				}
				if after := recordOf(t, first, slot); after != before {
					t.Errorf("the record is %+v, and was %+v", after, before)
				}
			})
		})
	}
}

// passBy runs a schedule that has the slot and another one, now, until the latter is decided.
func passBy(t *testing.T, pool *sql.DB, e *Elector, policy Policy, slot time.Time, work func() error) {
	t.Helper()
	now := serverTime(t, pool)
	end := now.Add(50 * time.Millisecond).Truncate(time.Microsecond)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	record := e.onEvent
	e.onEvent = func(event Event) {
		if (event.Kind == SlotFinished || event.Kind == SlotsMissed) && event.Slot.Equal(end) {
			cancel()
		}
		if record != nil {
			record(event)
		}
	}
	err := e.RunSchedule(ctx, "job", roll{slot, end, now.Add(time.Hour)}, policy, func(_ context.Context, s *Slot) error {
		if s.Time().Equal(slot) {
			return work()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("RunSchedule = %v, want that it goes on until the second slot is decided", err)
	}
}

func recordOf(t *testing.T, e *Elector, slot time.Time) SlotRun {
	t.Helper()
	runs, err := e.History(t.Context(), "job", 100)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(runs, func(r SlotRun) bool { return r.Slot.Equal(slot) })
	if i < 0 {
		t.Fatalf("slot %v is not among %+v", slot, runs)
	}
	run := runs[i]
	run.StartedAt, run.FinishedAt = run.StartedAt.UTC(), run.FinishedAt.UTC() // so that they compare
	return run
}

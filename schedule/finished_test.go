package schedule_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

// Neither a restart nor another holder nor a clock that was set back starts it once more.
func TestFinishedSlotIsNeverRunAgain(t *testing.T) {
	t.Parallel()
	all := schedule.Policy{CatchUp: schedule.CatchUpAll}
	for _, tt := range []struct {
		name      string
		scheduled bool // by Run, else by RunSlot
		policy    schedule.Policy
		err       error // of the work
		state     schedule.State
	}{
		{"done by one call", false, schedule.Policy{}, nil, schedule.StateDone},
		{"failed by one call", false, schedule.Policy{}, errBroken, schedule.StateFailed},
		{"done by the schedule", true, all, nil, schedule.StateDone},
		{"failed by the schedule", true, all, errBroken, schedule.StateFailed},
		{"missed", true, schedule.Policy{Grace: time.Millisecond}, nil, schedule.StateMissed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onPostgres(t, func(t *testing.T, pool *sql.DB) {
				slot := serverTime(t, pool).Add(-time.Minute)
				first := processOn(t, pool, 0)
				once := func(p *process, at time.Time, work slotFunc) (bool, error) {
					return p.RunSlot(t.Context(), "job", at, work)
				}
				if ran, err := once(first, slot.Add(-time.Hour), returning(nil)); !ran || err != nil {
					t.Fatal(ran, err)
				}
				if tt.scheduled {
					passBy(t, first, tt.policy, slot, returning(tt.err))
				} else if ran, err := once(first, slot, returning(tt.err)); !ran || !errors.Is(err, tt.err) {
					t.Fatal(ran, err)
				}
				before := recordOf(t, first, slot)
				if before.State != tt.state {
					t.Fatalf("the slot is %s, want %s", before.State, tt.state)
				}

				again := func(context.Context, *schedule.Slot) error {
					t.Error("it is run again")
					return errBroken
				}
				for _, wrong := range []time.Duration{0, -2 * time.Hour} {
					passBy(t, processOn(t, pool, wrong), all, slot, again)
					if ran, err := once(processOn(t, pool, wrong), slot, again); ran || err != nil {
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

// processOn makes a process on a real Postgres, whose clock may be wrong.
func processOn(t *testing.T, pool *sql.DB, wrong time.Duration) *process {
	t.Helper()
	p := &process{pool: pool}
	p.make(t, leader.Config{RetryEvery: 20 * time.Millisecond})
	p.setWall(t).Store(int64(wrong))
	return p
}

// passBy runs a schedule that has the slot and another one, now, until the latter is decided.
func passBy(t *testing.T, p *process, policy schedule.Policy, slot time.Time, work slotFunc) {
	t.Helper()
	now := serverTime(t, p.pool)
	end := now.Add(50 * time.Millisecond).Truncate(time.Microsecond)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p.hear = func(event schedule.Event) {
		decided := event.Kind == schedule.EventFinished || event.Kind == schedule.EventMissed
		if decided && event.Slot.Equal(end) {
			cancel()
		}
	}
	err := p.Scheduler.Run(ctx, "job", roll{slot, end, now.Add(time.Hour)}, policy,
		func(ctx context.Context, s *schedule.Slot) error {
			if s.Time().Equal(slot) {
				return work(ctx, s)
			}
			return nil
		})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v, want that it goes on until the second slot is decided", err)
	}
}

func recordOf(t *testing.T, p *process, slot time.Time) schedule.Record {
	t.Helper()
	runs, err := p.History(t.Context(), "job", 100)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(runs, func(r schedule.Record) bool { return r.Slot.Equal(slot) })
	if i < 0 {
		t.Fatalf("slot %v is not among %+v", slot, runs)
	}
	run := runs[i]
	run.StartedAt, run.FinishedAt = run.StartedAt.UTC(), run.FinishedAt.UTC() // so that they compare
	return run
}

// onPostgres runs a test over lib/pq and over pgx, each on a fresh database.
func onPostgres(t *testing.T, test func(t *testing.T, pool *sql.DB)) {
	t.Helper()
	for _, driver := range pgtest.Drivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			test(t, pgtest.Open(t, driver, pgtest.NewURL(t)))
		})
	}
}

// serverTime is what the database's clock shows, with a precision that it can store.
func serverTime(t *testing.T, pool *sql.DB) time.Time {
	t.Helper()
	var now time.Time
	if err := pool.QueryRowContext(t.Context(), `SELECT clock_timestamp()`).Scan(&now); err != nil {
		t.Fatal(err)
	}
	return now.UTC()
}

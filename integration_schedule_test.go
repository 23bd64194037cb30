package pgleader_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

func databaseNow(t *testing.T, pool *sql.DB) time.Time {
	t.Helper()
	var now time.Time
	if err := pool.QueryRowContext(t.Context(), "SELECT clock_timestamp()").Scan(&now); err != nil {
		t.Fatal(err)
	}
	return now
}

// Instances whose clocks differ come for one slot at different times; the one whose clock is ahead has to wait for the database's.
func TestSlotIsRunOnceByDatabaseTimeWhateverTheInstancesClocksSay(t *testing.T) {
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		slot := databaseNow(t, pool).Add(2 * time.Second)
		var runs atomic.Int32
		var wg sync.WaitGroup
		for _, offset := range []time.Duration{-2 * time.Second, 0, 2 * time.Second} { // of the instance's clock
			e := slotElector(t, pool, leader.Config{})
			wg.Go(func() {
				timer := time.NewTimer(time.Until(slot.Add(-offset)))
				defer timer.Stop()
				<-timer.C
				_, err := e.RunSlot(t.Context(), "nightly-report", slot, func(ctx context.Context, s *leader.Slot) error {
					runs.Add(1)
					if now := databaseNow(t, pool); now.Before(slot) {
						t.Errorf("slot %v was run at %v", slot, now)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if runs.Load() != 1 {
			t.Errorf("%d runs, want 1", runs.Load())
		}
	})
}

// done writes the record of a slot that was run in the past.
func done(t *testing.T, pool *sql.DB, job string, slot time.Time, state string, attempt int) {
	t.Helper()
	_, err := pool.ExecContext(t.Context(), `
		INSERT INTO leader_slot (job_name, slot, state, attempt, token, holder, started_at, finished_at, error)
		VALUES ($1, $2::timestamptz, $3::text, $4, 0, 'gone', $2, CASE WHEN $3 = 'running' THEN NULL ELSE $2 END, '')`, job, slot, state, attempt)
	if err != nil {
		t.Fatal(err)
	}
}

func TestCatchUpOfAnHourOfSlotsIsWhatThePolicySays(t *testing.T) {
	const interval = 5 * time.Minute
	for _, tt := range []struct {
		name     string
		policy   leader.Policy
		runs     int // of the slots up to now
		missed   int
		earliest int // intervals back of the first one that is run
	}{
		{"latest", leader.Policy{Grace: 2 * time.Hour}, 1, 11, 0},
		{"all", leader.Policy{Grace: 2 * time.Hour, CatchUp: leader.CatchUpAll}, 12, 0, 11},
		{"all within grace", leader.Policy{Grace: 28 * time.Minute, CatchUp: leader.CatchUpAll}, 6, 6, 5},
		{"none within grace", leader.Policy{Grace: time.Nanosecond}, 0, 12, 0},
		{"skip", leader.Policy{Grace: 2 * time.Hour, CatchUp: leader.CatchUpSkip}, 0, 12, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			forEachDriver(t, func(t *testing.T, driver, url string) {
				pool := pgtest.Open(t, driver, url)
				// The grid lies so that the newest slot was two minutes ago, and the next one is three minutes ahead.
				newest := databaseNow(t, pool).Add(-2 * time.Minute).Truncate(time.Second)
				done(t, pool, "hourly", newest.Add(-12*interval), "done", 1)
				e := slotElector(t, pool, leader.Config{})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				finished := make(chan error, 1)
				go func() {
					finished <- e.RunSchedule(ctx, "hourly", grid{newest, interval}, tt.policy, func(context.Context, *leader.Slot) error { return nil })
				}()
				want := 1 + tt.runs + tt.missed
				eventually(t, "every slot is decided", func() bool {
					h := history(t, e, "hourly")
					return len(h) == want && h[0].State != leader.SlotRunning
				})
				cancel()
				<-finished
				var runs, missed int
				var first time.Time
				for _, r := range history(t, e, "hourly")[:want-1] {
					switch r.State {
					case leader.SlotDone:
						runs++
						first = r.Slot
					case leader.SlotMissed:
						missed++
						if r.Error == "" || r.Attempt != 0 {
							t.Errorf("missed without a reason: %+v", r)
						}
					default:
						t.Errorf("%+v", r)
					}
				}
				if runs != tt.runs || missed != tt.missed {
					t.Errorf("%d runs and %d missed, want %d and %d", runs, missed, tt.runs, tt.missed)
				}
				if earliest := newest.Add(-time.Duration(tt.earliest) * interval); runs > 0 && !first.Equal(earliest) {
					t.Errorf("the first to be run is %v, want %v", first, earliest)
				}
			})
		})
	}
}

// A grid comes at every interval before and after an instant.
type grid struct {
	at       time.Time
	interval time.Duration
}

func (g grid) Next(after time.Time) time.Time {
	n := after.Sub(g.at).Truncate(g.interval)
	for next := g.at.Add(n - g.interval); ; next = next.Add(g.interval) {
		if next.After(after) {
			return next.UTC()
		}
	}
}

func TestSlotThatWasCutOffIsRunAgainUpToItsAttempts(t *testing.T) {
	for _, tt := range []struct {
		name    string
		attempt int
		state   leader.SlotState
		again   bool
	}{
		{"first attempt", 1, leader.SlotDone, true},
		{"last attempt", 3, leader.SlotAbandoned, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			forEachDriver(t, func(t *testing.T, driver, url string) {
				pool := pgtest.Open(t, driver, url)
				slot := databaseNow(t, pool).Add(-time.Minute).Truncate(time.Second)
				done(t, pool, "nightly", slot, "running", tt.attempt)
				e := slotElector(t, pool, leader.Config{})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				finished := make(chan error, 1)
				var runs atomic.Int32
				go func() {
					finished <- e.RunSchedule(ctx, "nightly", grid{slot, time.Hour}, leader.Policy{}, func(context.Context, *leader.Slot) error {
						runs.Add(1)
						return nil
					})
				}()
				eventually(t, "the slot is decided", func() bool { return history(t, e, "nightly")[0].State == tt.state })
				cancel()
				<-finished
				if again := runs.Load() == 1; again != tt.again {
					t.Errorf("%d runs", runs.Load())
				}
				if r := history(t, e, "nightly")[0]; tt.again && r.Attempt != tt.attempt+1 {
					t.Errorf("%+v, want attempt %d", r, tt.attempt+1)
				}
			})
		})
	}
}

func TestLostTermRefusesCompleteAndItsSlotIsRunAgain(t *testing.T) {
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		slot := databaseNow(t, pool).Add(-time.Minute)
		e, successor := slotElector(t, pool, leader.Config{}), slotElector(t, pool, leader.Config{})
		var again sync.WaitGroup
		ran, err := e.RunSlot(t.Context(), "report", slot, func(ctx context.Context, s *leader.Slot) error {
			// Somebody takes the lease away, as docs/operations.md says.
			if _, err := pool.ExecContext(ctx, "UPDATE leader_lease SET holder = 'operator', token = token + 1"); err != nil {
				return err
			}
			<-ctx.Done()
			if cause := context.Cause(ctx); !errors.Is(cause, leader.ErrLost) {
				t.Errorf("cause %v, want ErrLost", cause)
			}
			tx, err := pool.BeginTx(context.WithoutCancel(ctx), nil)
			if err != nil {
				return err
			}
			defer tx.Rollback()
			if err := s.Complete(context.WithoutCancel(ctx), tx); !errors.Is(err, leader.ErrLost) {
				t.Errorf("Complete = %v, want ErrLost", err)
			}
			again.Go(func() {
				ran, err := successor.RunSlot(t.Context(), "report", slot, func(_ context.Context, s *leader.Slot) error {
					if s.Attempt() != 2 {
						t.Errorf("attempt %d, want 2", s.Attempt())
					}
					return nil
				})
				if !ran || err != nil {
					t.Errorf("the successor: ran %v, %v", ran, err)
				}
			})
			again.Wait()
			return nil // too late
		})
		if ran || err != nil {
			t.Errorf("ran %v, %v; want the successor to have run it", ran, err)
		}
		if h := history(t, e, "report"); len(h) != 1 || h[0].State != leader.SlotDone || h[0].Attempt != 2 {
			t.Errorf("history %+v", h)
		}
	})
}

func TestScheduleRefusesWhatNeverComes(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t, "pgx", pgtest.NewURL(t))
	e := slotElector(t, pool, leader.Config{})
	work := func(context.Context, *leader.Slot) error { return nil }
	for name, call := range map[string]func() error{
		"never": func() error { return e.RunSchedule(t.Context(), "job", never{}, leader.Policy{}, work) },
		"nil":   func() error { return e.RunSchedule(t.Context(), "job", nil, leader.Policy{}, work) },
		"grace": func() error {
			return e.RunSchedule(t.Context(), "job", every(time.Hour), leader.Policy{Grace: -1}, work)
		},
		"attempts": func() error {
			return e.RunSchedule(t.Context(), "job", every(time.Hour), leader.Policy{Attempts: -1}, work)
		},
		"catch up": func() error {
			return e.RunSchedule(t.Context(), "job", every(time.Hour), leader.Policy{CatchUp: "some"}, work)
		},
		"keep": func() error {
			return e.RunSchedule(t.Context(), "job", every(time.Hour), leader.Policy{Keep: -1}, work)
		},
	} {
		if err := call(); !errors.Is(err, leader.ErrSchedule) {
			t.Errorf("%s: %v, want ErrSchedule", name, err)
		}
	}
	if err := e.RunSchedule(t.Context(), "job", every(time.Hour), leader.Policy{}, nil); err == nil {
		t.Error("RunSchedule takes nil for work")
	}
	if _, err := e.RunSlot(t.Context(), "job", time.Now(), nil); err == nil {
		t.Error("RunSlot takes nil for work")
	}
	if _, err := e.RunSlot(t.Context(), "job", time.Time{}, work); !errors.Is(err, leader.ErrSlotTime) {
		t.Errorf("zero time: %v, want ErrSlotTime", err)
	}
}

type never struct{}

func (never) Next(time.Time) time.Time { return time.Time{} }

func TestFiftyInstancesWithDifferentClocksRunHundredSlotsOnce(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t, "pgx", pgtest.NewURL(t))
	pool.SetMaxOpenConns(20)
	const interval = 50 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	start := databaseNow(t, pool).Add(2 * time.Second).Truncate(interval)
	end := start.Add(100 * interval)
	var mu sync.Mutex
	runs := make(map[time.Time]int)
	var wg sync.WaitGroup
	for i := range 50 {
		e := slotElector(t, pool, leader.Config{TTL: 5 * time.Second, RetryEvery: 500 * time.Millisecond})
		// An instance's clock has no say: all that it could do is to start early or late.
		timer := time.NewTimer(time.Duration(i) * 20 * time.Millisecond)
		wg.Go(func() {
			<-timer.C
			err := e.RunSchedule(ctx, "tick", between{start, end, interval}, leader.Policy{CatchUp: leader.CatchUpAll}, func(_ context.Context, s *leader.Slot) error {
				mu.Lock()
				defer mu.Unlock()
				runs[s.Time()]++
				if len(runs) == 100 {
					cancel()
				}
				return nil
			})
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(runs) != 100 {
		t.Errorf("%d slots were run, want 100", len(runs))
	}
	for slot, n := range runs {
		if n != 1 {
			t.Errorf("slot %v ran %d times", slot, n)
		}
	}
}

// between comes at each multiple of the interval, from an instant up to, but not at, another.
type between struct {
	from, to time.Time
	interval time.Duration
}

func (b between) Next(after time.Time) time.Time {
	next := after.Truncate(b.interval).Add(b.interval)
	if next.Before(b.from) {
		next = b.from
	}
	if !next.Before(b.to) {
		return time.Time{}
	}
	return next.UTC()
}

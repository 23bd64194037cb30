package pgleader_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

// The statement is taken from docs/operations.md, so that what an operator copies is what was tested.
func TestOperatorTakesLeaseAwayWithoutOverlap(t *testing.T) {
	text, err := os.ReadFile("docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	statement := regexp.MustCompile(`UPDATE leader_lease SET holder = 'operator'[^;]*`).FindString(string(text))
	if statement == "" {
		t.Fatal("docs/operations.md no longer has the statement that takes a lease away")
	}
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		cfg := leader.Config{TTL: 2 * time.Second, RetryEvery: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}
		first, err := leader.New(pool, cfg)
		if err != nil {
			t.Fatal(err)
		}
		second, err := leader.New(pool, cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		term, ok, err := first.TryAcquire(ctx, "nightly-report")
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		if _, err := pool.ExecContext(ctx, statement); err != nil {
			t.Fatal(err)
		}
		next, err := second.Campaign(ctx, "nightly-report")
		if err != nil {
			t.Fatal(err)
		}
		defer next.Resign()
		if cause := context.Cause(term.Context()); !errors.Is(cause, leader.ErrLost) {
			t.Errorf("a successor leads and the old term's cause is %v, want ErrLost", cause)
		}
		if next.Token() != term.Token()+2 {
			t.Errorf("token %d after %d and the operator's own", next.Token(), term.Token())
		}
	})
}

func TestDismissedLeaderStepsDownBeforeAnybodyElseLeads(t *testing.T) {
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		cfg := leader.Config{TTL: 2 * time.Second, RetryEvery: 20 * time.Millisecond}
		term := acquire(t, newElector(t, pool, cfg), job)
		operator := newElector(t, pool, leader.Config{Holder: "operator"})
		was, err := operator.Dismiss(t.Context(), job)
		if err != nil || was.Token != term.Token() || was.Left <= 0 || was.Left > 2*time.Second {
			t.Fatalf("Dismiss = %+v, %v; want the lease as it was", was, err)
		}
		next := campaign(t, newElector(t, pool, cfg), job)
		if cause := context.Cause(term.Context()); !errors.Is(cause, leader.ErrLost) {
			t.Errorf("a successor leads and the old term's cause is %v, want ErrLost", cause)
		}
		if acquired := scan[time.Time](t, pool, `SELECT acquired_at FROM leader_lease`); acquired.Before(was.ExpiresAt) {
			t.Errorf("the successor began at %v, before the old lease would have expired at %v", acquired, was.ExpiresAt)
		}
		if next.Token() != term.Token()+2 {
			t.Errorf("token %d after %d and the operator's own", next.Token(), term.Token())
		}
		resign(t, next)
		if _, err := operator.Dismiss(t.Context(), job); !errors.Is(err, leader.ErrNotLed) {
			t.Errorf("Dismiss without a leader: %v, want ErrNotLed", err)
		}
		if _, err := operator.Dismiss(t.Context(), "never led"); !errors.Is(err, leader.ErrNotLed) {
			t.Errorf("Dismiss of a job that was never led: %v, want ErrNotLed", err)
		}
	})
}

func TestDismissWaitsForAGuardedTransaction(t *testing.T) {
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		term := acquire(t, newElector(t, pool, slow), job)
		tx := begin(t, pool, sql.LevelReadCommitted)
		if err := term.Guard(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
		operator := newElector(t, pool, leader.Config{TTL: time.Minute})
		dismissed := make(chan error, 1)
		go func() {
			_, err := operator.Dismiss(context.Background(), job)
			dismissed <- err
		}()
		eventually(t, "Dismiss to wait for the row", func() bool {
			return scan[int](t, pool, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'`) > 0
		})
		if token := tokenOf(t, pool, job); token != term.Token() {
			t.Errorf("token %d under an open guard, want %d", token, term.Token())
		}
		commit(t, tx)
		if err := receive(t, "Dismiss", dismissed); err != nil {
			t.Error(err)
		}
	})
}

func TestSlotThatIsRequestedIsRunAgain(t *testing.T) {
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		slot := databaseNow(t, pool).Add(-time.Minute).Truncate(time.Second)
		attempts := 0
		run := func(fails error) (bool, error) {
			return slotElector(t, pool, leader.Config{}).RunSlot(t.Context(), job, slot, func(_ context.Context, s *leader.Slot) error {
				attempts = s.Attempt()
				return fails
			})
		}
		operator := slotElector(t, pool, leader.Config{Holder: "operator"})
		if err := operator.Rerun(t.Context(), job, slot); !errors.Is(err, leader.ErrNoSlot) {
			t.Errorf("Rerun of a slot without a record: %v, want ErrNoSlot", err)
		}
		broken := errors.New("no paper")
		for want := 1; want <= 5; want++ { // more than the attempts of a policy
			if ran, err := run(broken); !ran || !errors.Is(err, broken) || attempts != want {
				t.Fatalf("run %d: %v, %v, attempt %d", want, ran, err, attempts)
			}
			if ran, err := run(nil); ran || err != nil {
				t.Fatalf("after run %d, without a request: %v, %v", want, ran, err)
			}
			if err := operator.Rerun(t.Context(), job, slot); err != nil {
				t.Fatal(err)
			}
			h := history(t, operator, job)
			if len(h) != 1 || h[0].State != leader.SlotRequested || !strings.HasPrefix(h[0].Error, "requested by operator:") {
				t.Fatalf("history %+v", h)
			}
		}
		if ran, err := run(nil); !ran || err != nil || attempts != 6 {
			t.Errorf("the last run: %v, %v, attempt %d", ran, err, attempts)
		}
	})
}

func TestResidentScheduleRunsARequestedSlotHoweverOld(t *testing.T) {
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		now := databaseNow(t, pool).Truncate(time.Second)
		old := now.Add(-48 * time.Hour)
		for _, at := range []time.Time{old, now.Add(-time.Hour)} {
			mustExec(t, pool, `INSERT INTO leader_slot (job_name, slot, state, attempt, token, holder, finished_at)
				VALUES ($1, $2, 'missed', 0, 1, 'somebody', now())`, job, at)
		}
		e := slotElector(t, pool, leader.Config{})
		if err := e.Rerun(t.Context(), job, old); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), patience)
		defer stop()
		var ran time.Time
		err := e.RunSchedule(ctx, job, every(24*365*time.Hour), leader.Policy{}, func(_ context.Context, s *leader.Slot) error {
			ran = s.Time()
			stop()
			return nil
		})
		if !errors.Is(err, context.Canceled) || !ran.Equal(old) {
			t.Errorf("%v; ran %v, want %v", err, ran, old)
		}
	})
}

package contract_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

func TestSlotThatIsRequestedIsRunAgain(t *testing.T) {
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		slot := databaseNow(t, pool).Add(-time.Minute).Truncate(time.Second)
		attempts := 0
		run := func(fails error) (bool, error) {
			work := func(_ context.Context, s *schedule.Slot) error {
				attempts = s.Attempt()
				return fails
			}
			return slotElector(t, pool, leader.Config{}).RunSlot(t.Context(), job, slot, work)
		}
		operator := slotElector(t, pool, leader.Config{Holder: "operator"})
		if err := operator.Rerun(t.Context(), job, slot); !errors.Is(err, schedule.ErrNoSlot) {
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
			onRecord(t, operator, job, schedule.StateRequested, want)
			if why := history(t, operator, job)[0].Error; !strings.HasPrefix(why, "requested by operator:") {
				t.Fatalf("the error on record is %q", why)
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
			mustExec(t, pool, `
				INSERT INTO leader_slot (job_name, slot, state, attempt, token, holder, finished_at)
				VALUES ($1, $2, 'missed', 0, 1, 'somebody', now())`, job, at)
		}
		e := slotElector(t, pool, leader.Config{})
		if err := e.Rerun(t.Context(), job, old); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), patience)
		defer stop()
		var ran time.Time
		work := func(_ context.Context, s *schedule.Slot) error {
			ran = s.Time()
			stop()
			return nil
		}
		err := e.Scheduler.Run(ctx, job, every(24*365*time.Hour), schedule.Policy{}, work)
		if !errors.Is(err, context.Canceled) || !ran.Equal(old) {
			t.Errorf("%v; ran %v, want %v", err, ran, old)
		}
	})
}

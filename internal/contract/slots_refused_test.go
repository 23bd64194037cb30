package contract_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

func TestScheduleRefusesWhatNeverComes(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t, "pgx", pgtest.NewURL(t))
	e := slotElector(t, pool, leader.Config{})
	work := func(context.Context, *schedule.Slot) error { return nil }
	hourly := every(time.Hour)
	for name, c := range map[string]struct {
		schedule schedule.Schedule
		policy   schedule.Policy
	}{
		"never":    {never{}, schedule.Policy{}},
		"nil":      {nil, schedule.Policy{}},
		"grace":    {hourly, schedule.Policy{Grace: -1}},
		"no unit":  {hourly, schedule.Policy{Grace: 60}},
		"attempts": {hourly, schedule.Policy{Attempts: -1}},
		"catch up": {hourly, schedule.Policy{CatchUp: "some"}},
		"keep":     {hourly, schedule.Policy{Keep: 90}},
	} {
		err := e.Scheduler.Run(t.Context(), "job", c.schedule, c.policy, work)
		if !errors.Is(err, schedule.ErrSchedule) {
			t.Errorf("%s: %v, want ErrSchedule", name, err)
		}
	}
	if err := e.Scheduler.Run(t.Context(), "job", hourly, schedule.Policy{}, nil); err == nil {
		t.Error("Run takes nil for work")
	}
	if _, err := e.RunSlot(t.Context(), "job", time.Now(), nil); err == nil {
		t.Error("RunSlot takes nil for work")
	}
	_, err := e.RunSlot(t.Context(), "job", time.Time{}, work)
	if !errors.Is(err, schedule.ErrSlotTime) {
		t.Errorf("zero time: %v, want ErrSlotTime", err)
	}
}

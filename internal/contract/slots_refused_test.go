package contract_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

func TestScheduleRefusesWhatNeverComes(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t, "pgx", pgtest.NewURL(t))
	e := slotElector(t, pool, leader.Config{})
	work := func(context.Context, *leader.Slot) error { return nil }
	hourly := every(time.Hour)
	for name, c := range map[string]struct {
		schedule leader.Schedule
		policy   leader.Policy
	}{
		"never":    {never{}, leader.Policy{}},
		"nil":      {nil, leader.Policy{}},
		"grace":    {hourly, leader.Policy{Grace: -1}},
		"attempts": {hourly, leader.Policy{Attempts: -1}},
		"catch up": {hourly, leader.Policy{CatchUp: "some"}},
		"keep":     {hourly, leader.Policy{Keep: -1}},
	} {
		err := e.RunSchedule(t.Context(), "job", c.schedule, c.policy, work)
		if !errors.Is(err, leader.ErrSchedule) {
			t.Errorf("%s: %v, want ErrSchedule", name, err)
		}
	}
	if err := e.RunSchedule(t.Context(), "job", hourly, leader.Policy{}, nil); err == nil {
		t.Error("RunSchedule takes nil for work")
	}
	if _, err := e.RunSlot(t.Context(), "job", time.Now(), nil); err == nil {
		t.Error("RunSlot takes nil for work")
	}
	_, err := e.RunSlot(t.Context(), "job", time.Time{}, work)
	if !errors.Is(err, leader.ErrSlotTime) {
		t.Errorf("zero time: %v, want ErrSlotTime", err)
	}
}

package schedule_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/internal/pgfake"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

func TestLastSlotOfAScheduleThatEndsIsRunWhenTheCallComesJustAfterIt(t *testing.T) {
	ends := roll{midnight().Add(time.Hour)}
	for name, run := range map[string]func(context.Context, *process, slotFunc) error{
		"RunDue": func(ctx context.Context, p *process, work slotFunc) error {
			_, err := p.RunDue(ctx, "job", ends, schedule.Policy{}, work)
			return err
		},
		"Run": func(ctx context.Context, p *process, work slotFunc) error {
			err := p.Scheduler.Run(ctx, "job", ends, schedule.Policy{}, work)
			if errors.Is(err, context.DeadlineExceeded) {
				return nil
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				d := &diary{table: tb}
				putSlot(tb, midnight(), schedule.StateDone, 1)
				until(time.Hour + time.Second)
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
				defer cancel()
				if err := run(ctx, start(t, tb, leader.Config{}), d.work(0)); err != nil {
					t.Error(err)
				}
				wantOutcomes(t, tb, "00:00 done 1", "01:00 done 1")
			})
		})
	}
}

func TestScheduleThatGoesBackwardsIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, pgfake.NewTable(), leader.Config{})
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		slots := backwards{midnight().Add(2 * time.Hour)}
		err := p.Scheduler.Run(ctx, "job", slots, schedule.Policy{}, returning(nil))
		if !errors.Is(err, schedule.ErrSchedule) {
			t.Errorf("Run = %v, want schedule.ErrSchedule", err)
		}
		within(t, midnight(), 3*time.Hour, "the error")
	})
}

// backwards is a schedule that goes backwards from some instant on.
type backwards struct{ from time.Time }

func (b backwards) Next(after time.Time) time.Time {
	if after.Before(b.from) {
		return hourly.Next(after)
	}
	return after.Add(-time.Hour)
}

func TestInstantsBelowAMicrosecondAreSlotsToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		d := &diary{table: tb}
		until(30 * time.Minute)
		p := start(t, tb, leader.Config{})
		p.follow(t, fraction{}, schedule.Policy{}, d.work(0))
		until(3*time.Hour + time.Minute)
		wantOutcomes(t, tb, "01:00 done 1", "02:00 done 1", "03:00 done 1")
		for _, run := range d.all() {
			if want := run.slot.Truncate(time.Hour).Add(time.Microsecond); !run.slot.Equal(want) {
				t.Errorf("the slot is %v, want %v", run.slot, want)
			}
		}
	})
}

// fraction comes half a microsecond after each full hour, as libraries that start from Go's clock
// have it.
type fraction struct{}

func (fraction) Next(after time.Time) time.Time {
	const half = 500 * time.Nanosecond
	return after.Add(-half).Truncate(time.Hour).Add(time.Hour).Add(half)
}

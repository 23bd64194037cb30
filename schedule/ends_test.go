package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/internal/pgfake"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

// The slot is on record as failed, the answer to that is lost, and the path is down: for longer than
// the term, or for longer than the call cares to wait.
func TestErrorOfWorkReachesTheCallerThoughItsAnswerWasLost(t *testing.T) {
	for _, down := range []time.Duration{time.Second, 20 * time.Second, time.Minute, time.Hour} {
		t.Run(down.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				p := start(t, tb, leader.Config{})
				var since time.Time
				p.path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
					switch {
					case s.Kind == pgfake.KindFinishSlot && s.Nth == 1:
						since = time.Now()
						return pgfake.Trouble{Loses: pgfake.ErrReset}
					case !since.IsZero() && time.Since(since) < down:
						return pgfake.Trouble{Fails: pgfake.ErrReset}
					}
					return pgfake.Trouble{}
				})
				due, err := p.RunDue(t.Context(), "job", hourly, schedule.Policy{},
					func(context.Context, *schedule.Slot) error { return errBroken })
				if !errors.Is(err, errBroken) {
					t.Errorf("RunDue = %+v, %v; want the work's error", due, err)
				}
				if down < time.Minute && due.Ran != 1 {
					t.Errorf("RunDue = %+v, want 1 run", due)
				}
				wantOutcomes(t, tb, "00:00 failed 1")
			})
		})
	}
}

func TestWorkThatResignsItsTermDoesNotEndTheSchedule(t *testing.T) {
	for name, err := range map[string]error{"returns nil": nil, "fails": errBroken} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				until(30 * time.Minute)
				p := start(t, tb, leader.Config{})
				p.follow(t, hourly, schedule.Policy{}, func(_ context.Context, s *schedule.Slot) error {
					mustResign(t, s.Term())
					return err
				})
				until(3*time.Hour + time.Minute)
				state := schedule.StateDone
				if err != nil {
					state = schedule.StateFailed
				}
				var want []string
				for hour := 1; hour <= 3; hour++ {
					want = append(want, fmt.Sprintf("%02d:00 %s 1", hour, state))
				}
				wantOutcomes(t, tb, want...)
			})
		})
	}
}

func TestPanicInWorkIsAnEndToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, leader.Config{})
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic does not go on up")
				}
			}()
			_, _ = p.RunDue(t.Context(), "job", hourly, schedule.Policy{},
				func(context.Context, *schedule.Slot) error { panic("out of paper") })
		}()
		end := p.reported(schedule.EventFinished)
		if len(end) != 1 || end[0].State != schedule.StateAbandoned || end[0].Err == nil {
			t.Errorf("the end reported is %+v", end)
		}
		if tb.Live("job") {
			t.Error("the lease was not released")
		}
	})
}

// fraction comes at each full hour and half a microsecond, as libraries that start from Go's clock
// have it.
type fraction struct{}

func (fraction) Next(after time.Time) time.Time {
	const half = 500 * time.Nanosecond
	return after.Add(-half).Truncate(time.Hour).Add(time.Hour).Add(half)
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

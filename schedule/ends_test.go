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

// The slot is on record as failed, but the answer to that is lost and the path is down. It stays
// down longer than the term, or longer than the call cares to wait.
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
				due, err := p.RunDue(t.Context(), "job", hourly, schedule.Policy{}, returning(errBroken))
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

// The term is lost after the slot has failed, before the call has returned.
func TestErrorOfTheLastRunIsReturnedAlsoWhenTheTermIsLostRightAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		until(time.Hour + time.Second)
		p := start(t, tb, leader.Config{})
		p.path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
			early := time.Since(midnight()) < time.Hour+20*time.Second
			if s.Renews() || s.Kind == pgfake.KindPrune && early {
				return pgfake.Trouble{Fails: pgfake.ErrReset}
			}
			return pgfake.Trouble{}
		})
		due, err := p.RunDue(t.Context(), "job", hourly, schedule.Policy{}, returning(errBroken))
		if due.Ran != 1 || !errors.Is(err, errBroken) {
			t.Errorf("%+v, %v; want 1 run and its error", due, err)
		}
	})
}

// The failure is recorded, but no answer says so before the term is lost.
func TestRunSlotReturnsTheWorksErrorAlsoWhenTheTermIsLostRightAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, leader.Config{})
		time.AfterFunc(20*time.Second, func() { p.path.Suffer(nil) })
		work := func(context.Context, *schedule.Slot) error {
			p.path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
				if s.Kind == pgfake.KindFinishSlot || s.Renews() {
					return pgfake.Trouble{Loses: pgfake.ErrReset}
				}
				return pgfake.Trouble{}
			})
			return errBroken
		}
		ran, err := p.RunSlot(t.Context(), "job", midnight(), work)
		if !ran || !errors.Is(err, errBroken) {
			t.Errorf("RunSlot = %v, %v; want the work's error", ran, err)
		}
		wantOutcomes(t, tb, "00:00 failed 1")
	})
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

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

// An outage of 50 minutes leaves 3,000 slots behind, all of which can still be started in time.
func TestCatchingUpOnAllLeavesNoSlotWithinGraceOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		d := &diary{table: tb}
		putSlot(tb, midnight(), schedule.StateDone, 1)
		until(50 * time.Minute)
		start(t, tb, leader.Config{}).follow(t, every(time.Second), schedule.Policy{CatchUp: schedule.CatchUpAll}, d.work(0))
		time.Sleep(10*time.Second + time.Millisecond)
		runs := d.all()
		if len(runs) != 50*60+10 {
			t.Errorf("%d runs, want %d", len(runs), 50*60+10)
		}
		for i, run := range runs {
			if want := midnight().Add(time.Duration(i+1) * time.Second); !run.slot.Equal(want) {
				t.Fatalf("run %d is of slot %v, want %v", i, run.slot, want)
			}
		}
	})
}

// A job's very first call dies between its election and the start of the slot.
func TestFirstSlotIsRunByTheNextCallWhenTheFirstOneDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		until(time.Hour + time.Second)
		dying := start(t, tb, leader.Config{})
		dying.path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
			first := s.Kind == pgfake.KindSurvey && s.Nth == 1
			return pgfake.Trouble{Hangs: s.Kind != pgfake.KindAcquire && !first}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		due, err := dying.RunDue(ctx, "report", hourly, schedule.Policy{}, func(context.Context, *schedule.Slot) error { return nil })
		if err == nil {
			t.Fatalf("%+v, want an error", due)
		}
		until(time.Hour + time.Minute)
		due, err = turnUp(t, tb, schedule.Policy{}, time.Second)
		if err != nil || due.Ran != 1 {
			t.Errorf("%+v, %v; want 1 run", due, err)
		}
	})
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
		broken := errors.New("no paper")
		due, err := p.RunDue(t.Context(), "report", hourly, schedule.Policy{}, func(context.Context, *schedule.Slot) error { return broken })
		if due.Ran != 1 || !errors.Is(err, broken) {
			t.Errorf("%+v, %v; want 1 run and its error", due, err)
		}
	})
}

// once is a schedule that ends: it comes at one instant.
type once struct{ at time.Time }

func (o once) Next(after time.Time) time.Time {
	if after.Before(o.at) {
		return o.at
	}
	return time.Time{}
}

func TestLastSlotOfAScheduleThatEndsIsRunWhenTheCallComesJustAfterIt(t *testing.T) {
	for name, run := range map[string]func(context.Context, *process, slotFunc) error{
		"RunDue": func(ctx context.Context, p *process, work slotFunc) error {
			_, err := p.RunDue(ctx, "job", once{midnight().Add(time.Hour)}, schedule.Policy{}, work)
			return err
		},
		"Run": func(ctx context.Context, p *process, work slotFunc) error {
			err := p.Scheduler.Run(ctx, "job", once{midnight().Add(time.Hour)}, schedule.Policy{}, work)
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

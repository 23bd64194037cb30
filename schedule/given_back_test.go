package schedule_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/internal/pgfake"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

// The shutdown comes within a round trip of the slot's time.
func TestClaimWhoseWorkNeverBeganIsGivenBack(t *testing.T) {
	for name, trouble := range map[string]pgfake.Trouble{
		"slow answer":        {Slow: 500 * time.Millisecond},
		"slow request":       {Late: 500 * time.Millisecond},
		"answer that's lost": {Slow: 500 * time.Millisecond, Loses: pgfake.ErrReset},
	} {
		for _, attempts := range []int{1, 3} {
			t.Run(fmt.Sprint(name, " ", attempts), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					tb := pgfake.NewTable()
					d := &diary{table: tb}
					policy := schedule.Policy{Attempts: attempts}
					for range 4 { // more than the attempts
						p := start(t, tb, leader.Config{})
						p.path.Suffer(pgfake.Only(pgfake.KindClaimSlot, trouble))
						if time.Since(midnight()) < time.Hour {
							until(30 * time.Minute)
						}
						stop := p.follow(t, daily(time.Hour), policy, d.work(0))
						until(max(time.Hour, time.Since(midnight())) + 200*time.Millisecond)
						stop()
						wantOutcomes(t, tb, "01:00 abandoned 0")
						if n := len(p.reported(schedule.EventGivenBack)); n != 1 {
							t.Errorf("%d slots were reported as given back, want 1", n)
						}
						if tb.Live("job") {
							t.Error("the lease was not released")
						}
					}
					if n := len(d.all()); n != 0 {
						t.Errorf("the slot was run %d times while processes shut down", n)
					}
					start(t, tb, leader.Config{}).follow(t, daily(time.Hour), policy, d.work(0))
					time.Sleep(time.Minute)
					wantOutcomes(t, tb, "01:00 done 1")
				})
			})
		}
	}
}

// It was claimed in time, but its work would begin too late.
func TestSlotThatWasGivenBackIsStartedWithinGraceOnly(t *testing.T) {
	for _, tt := range []struct {
		down time.Duration // nobody is there
		want string
	}{
		{4 * time.Minute, "01:00 done 1"},
		{6 * time.Minute, "01:00 abandoned 0"},
	} {
		for _, policy := range []schedule.Policy{
			{Grace: 5 * time.Minute}, {Grace: 5 * time.Minute, CatchUp: schedule.CatchUpAll},
		} {
			t.Run(fmt.Sprint(tt.down, " ", policy.CatchUp), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					tb := pgfake.NewTable()
					d := &diary{table: tb}
					until(30 * time.Minute)
					p := start(t, tb, leader.Config{})
					p.path.Suffer(pgfake.Only(pgfake.KindClaimSlot, pgfake.Trouble{Slow: 500 * time.Millisecond}))
					stop := p.follow(t, daily(time.Hour), policy, d.work(0))
					until(time.Hour + 200*time.Millisecond)
					stop()
					until(time.Hour + tt.down)
					start(t, tb, leader.Config{}).follow(t, daily(time.Hour), policy, d.work(0))
					time.Sleep(time.Minute)
					wantOutcomes(t, tb, tt.want)
				})
			})
		}
	}
}

// A program that is about to end, and has not begun.
func TestWorkThatWasNotStartedGivesTheSlotToTheNextLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		d := &diary{table: tb}
		until(30 * time.Minute)
		policy := schedule.Policy{Attempts: 1}
		work := func(_ context.Context, s *schedule.Slot) error {
			d.note(s)
			return fmt.Errorf("shutting down: %w", schedule.ErrNotStarted)
		}
		stop := start(t, tb, leader.Config{}).follow(t, daily(time.Hour), policy, work)
		until(time.Hour + 10*time.Minute)
		wantOutcomes(t, tb, "01:00 abandoned 0")
		if n := len(d.all()); n != 1 {
			t.Errorf("the same leader was asked %d times, want once", n)
		}
		stop()
		start(t, tb, leader.Config{}).follow(t, daily(time.Hour), policy, d.work(0))
		time.Sleep(time.Minute)
		wantOutcomes(t, tb, "01:00 done 1")
	})
}

// An operator asks for a run that no attempts limit, and the leader shuts down as it claims it.
func TestRequestOutlivesTheShutdownThatGaveItsRunBack(t *testing.T) {
	for name, trouble := range map[string]pgfake.Trouble{
		"slow answer":        {Slow: 500 * time.Millisecond},
		"answer that's lost": {Slow: 500 * time.Millisecond, Loses: pgfake.ErrReset},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				d := &diary{table: tb}
				policy := schedule.Policy{Attempts: 1}
				operator := start(t, tb, leader.Config{})
				until(30 * time.Minute)
				stop := start(t, tb, leader.Config{}).follow(t, daily(time.Hour), policy, d.work(0))
				until(2 * time.Hour)
				stop()
				wantOutcomes(t, tb, "01:00 done 1")
				if err := operator.Rerun(t.Context(), "job", midnight().Add(time.Hour)); err != nil {
					t.Fatal(err)
				}
				p := start(t, tb, leader.Config{})
				p.path.Suffer(pgfake.Only(pgfake.KindClaimSlot, trouble))
				stop = p.follow(t, daily(time.Hour), policy, d.work(0))
				time.Sleep(200 * time.Millisecond)
				stop()
				wantOutcomes(t, tb, "01:00 requested 2")
				if n := len(p.reported(schedule.EventGivenBack)); n != 1 {
					t.Errorf("%d slots were reported as given back, want 1", n)
				}
				start(t, tb, leader.Config{}).follow(t, daily(time.Hour), policy, d.work(0))
				time.Sleep(time.Minute)
				wantOutcomes(t, tb, "01:00 done 3")
			})
		})
	}
}

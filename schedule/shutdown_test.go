package schedule_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/internal/pgfake"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

// Work that a shutdown interrupts is cut off, not failed. What it has finished all the same stays
// finished.
func TestShutdownCutsASlotOffUnlessItsWorkWasDone(t *testing.T) {
	for _, tt := range []struct {
		name     string
		err      error
		shutdown bool // before the work returns
		want     string
		next     string // when the next instance has come
	}{
		{"an error after the shutdown", errBroken, true, "01:00 abandoned 1", "01:00 done 2"},
		{"an error before the shutdown", errBroken, false, "01:00 failed 1", "01:00 failed 1"},
		{"no error after the shutdown", nil, true, "01:00 done 1", "01:00 done 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				d := &diary{table: tb}
				until(30 * time.Minute)
				work := func(context.Context, *schedule.Slot) error {
					time.Sleep(time.Minute)
					return tt.err
				}
				first := start(t, tb, leader.Config{})
				stop := first.follow(t, daily(time.Hour), schedule.Policy{}, work)
				if tt.shutdown {
					until(time.Hour + 30*time.Second)
				} else {
					until(time.Hour + 90*time.Second)
				}
				stop()
				wantOutcomes(t, tb, tt.want)
				next := start(t, tb, leader.Config{})
				next.follow(t, daily(time.Hour), schedule.Policy{}, d.work(0))
				time.Sleep(time.Minute)
				wantOutcomes(t, tb, tt.next)
			})
		})
	}
}

// What was begun counts: a policy of one attempt means at most once.
func TestShutdownDuringTheWorkUsesAnAttemptUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		d := &diary{table: tb}
		until(30 * time.Minute)
		policy := schedule.Policy{Attempts: 1}
		stop := start(t, tb, leader.Config{}).follow(t, daily(time.Hour), policy, d.work(time.Hour))
		until(time.Hour + time.Minute)
		stop()
		start(t, tb, leader.Config{}).follow(t, daily(time.Hour), policy, d.work(0))
		time.Sleep(time.Minute)
		wantOutcomes(t, tb, "01:00 abandoned 1")
	})
}

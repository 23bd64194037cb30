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

// The work has sent its mails and then returns an error, at every attempt.
func TestFailedSlotIsRunAgainOnlyOnRequestAlsoAfterARestart(t *testing.T) {
	all := schedule.Policy{CatchUp: schedule.CatchUpAll, Grace: 24 * time.Hour}
	for _, tt := range []struct {
		name   string
		policy schedule.Policy
		want   string
	}{
		{"by default", schedule.Policy{}, "01:00 failed 1"},
		{"by default, catching up on all", all, "01:00 failed 1"},
		{"on request", schedule.Policy{RepeatFailed: true}, "01:00 failed 3"},
		{"on request, five times", schedule.Policy{RepeatFailed: true, Attempts: 5}, "01:00 failed 5"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				d := &diary{table: tb}
				work := func(_ context.Context, s *schedule.Slot) error {
					d.note(s)
					return errBroken
				}
				until(30 * time.Minute)
				for range 3 {
					p := start(t, tb, leader.Config{})
					stop := p.follow(t, daily(time.Hour), tt.policy, work)
					time.Sleep(time.Hour)
					stop()
				}
				wantOutcomes(t, tb, tt.want)
				rows := tb.Slots()
				if rows[0].Error != errBroken.Error() || len(d.all()) != int(rows[0].Attempt) {
					t.Errorf("%d runs, on record %+v", len(d.all()), rows[0])
				}
			})
		})
	}
}

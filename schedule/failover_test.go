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

// An hour's work is renewed all along, and so it is not dead, however slow the database and whoever
// comes.
func TestLongRunThatIsRenewedIsNotStartedASecondTime(t *testing.T) {
	slot := midnight().Add(time.Hour)
	resident := func(ctx context.Context, p *process, d *diary) error {
		return p.Scheduler.Run(ctx, "job", daily(time.Hour), schedule.Policy{}, d.work(time.Hour))
	}
	once := func(ctx context.Context, p *process, d *diary) error {
		_, err := p.RunSlot(ctx, "job", slot, d.work(time.Hour))
		return err
	}
	for name, call := range map[string]func(context.Context, *process, *diary) error{
		"schedule": resident, "one slot": once,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				d := &diary{table: tb}
				begin := func() (*process, context.CancelFunc) {
					ctx, cancel := context.WithCancel(context.Background())
					p, ended := start(t, tb, leader.Config{}), make(chan error, 1)
					go func() { ended <- call(ctx, p, d) }()
					t.Cleanup(func() {
						cancel()
						if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
							t.Error(err)
						}
					})
					return p, cancel
				}
				first, _ := begin()
				until(time.Hour + 10*time.Minute)
				_, stop := begin()
				until(time.Hour + 20*time.Minute)
				stop()
				second, _ := begin()
				until(time.Hour + 30*time.Minute)
				for _, p := range []*process{first, second} {
					p.path.Suffer(pgfake.Always(pgfake.Trouble{Late: 2 * time.Second, Slow: 2 * time.Second}))
				}
				time.Sleep(time.Minute)
				first.path.Suffer(nil)
				second.path.Suffer(nil)
				until(3 * time.Hour)
				wantOutcomes(t, tb, "01:00 done 1")
				if runs := d.all(); len(runs) != 1 || runs[0].holder != first.Holder() {
					t.Errorf("the runs are %+v, want one, by %q", runs, first.Holder())
				}
			})
		})
	}
}

// The leader is killed at 01:30, half an hour into its work for the slot of 01:00.
func TestKilledLeadersSlotIsAbandonedRunAgainAndBlocksNoOther(t *testing.T) {
	skip, all := schedule.Policy{CatchUp: schedule.CatchUpSkip}, schedule.Policy{CatchUp: schedule.CatchUpAll, Grace: 24 * time.Hour}
	for _, tt := range []struct {
		name   string
		policy schedule.Policy
		down   time.Duration // until an instance is started again
		want   []string      // at 03:30
	}{
		{"attempts left", schedule.Policy{}, time.Minute, []string{"01:00 done 2", "02:00 done 1", "03:00 running 1"}},
		{"past its grace", schedule.Policy{Grace: time.Minute}, time.Minute, []string{"01:00 done 2", "02:00 missed 0", "03:00 running 1"}},
		{"skipping", skip, time.Minute, []string{"01:00 done 2", "02:00 missed 0", "03:00 running 1"}},
		{"no attempt left", schedule.Policy{Attempts: 1}, time.Minute, []string{"01:00 abandoned 1", "02:00 done 1", "03:00 running 1"}},
		{"later slot due", schedule.Policy{}, time.Hour, []string{"01:00 abandoned 1", "02:00 done 1", "03:00 running 1"}},
		{"later slot due, skipping", skip, time.Hour, []string{"01:00 abandoned 1", "02:00 missed 0", "03:00 running 1"}},
		{"later slot due, all", all, time.Hour, []string{"01:00 done 2", "02:00 running 1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				d := &diary{table: tb}
				until(30 * time.Minute)
				first := start(t, tb, leader.Config{})
				stop := first.follow(t, every(time.Hour), tt.policy, d.work(59*time.Minute))
				until(90 * time.Minute)
				first.crash()
				stop()
				time.Sleep(tt.down)
				start(t, tb, leader.Config{}).follow(t, every(time.Hour), tt.policy, d.work(59*time.Minute))
				until(3*time.Hour + 30*time.Minute)
				wantOutcomes(t, tb, tt.want...)
			})
		})
	}
}

// The work has sent its mails and then returns an error, at every attempt.
func TestFailedSlotIsRunAgainOnlyOnRequestAlsoAfterARestart(t *testing.T) {
	failure := errors.New("exit status 1")
	for _, tt := range []struct {
		name   string
		policy schedule.Policy
		want   string
	}{
		{"by default", schedule.Policy{}, "01:00 failed 1"},
		{"by default, catching up on all", schedule.Policy{CatchUp: schedule.CatchUpAll, Grace: 24 * time.Hour}, "01:00 failed 1"},
		{"on request", schedule.Policy{RepeatFailed: true}, "01:00 failed 3"},
		{"on request, five times", schedule.Policy{RepeatFailed: true, Attempts: 5}, "01:00 failed 5"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				d := &diary{table: tb}
				work := func(_ context.Context, s *schedule.Slot) error {
					d.note(s)
					return failure
				}
				until(30 * time.Minute)
				for range 3 {
					stop := start(t, tb, leader.Config{}).follow(t, daily(time.Hour), tt.policy, work)
					time.Sleep(time.Hour)
					stop()
				}
				wantOutcomes(t, tb, tt.want)
				rows := tb.Slots()
				if rows[0].Error != failure.Error() || len(d.all()) != int(rows[0].Attempt) {
					t.Errorf("%d runs, on record %+v", len(d.all()), rows[0])
				}
			})
		})
	}
}

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
				slow := pgfake.Trouble{Late: 2 * time.Second, Slow: 2 * time.Second}
				for _, p := range []*process{first, second} {
					p.path.Suffer(pgfake.Always(slow))
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
	usual, skip := schedule.Policy{}, schedule.Policy{CatchUp: schedule.CatchUpSkip}
	all := schedule.Policy{CatchUp: schedule.CatchUpAll, Grace: 24 * time.Hour}
	short, single := schedule.Policy{Grace: time.Minute}, schedule.Policy{Attempts: 1}
	const (
		again, cutOff = "01:00 done 2", "01:00 abandoned 1"
		ran, missed   = "02:00 done 1", "02:00 missed 0"
		now           = "03:00 running 1"
	)
	for _, tt := range []struct {
		name   string
		policy schedule.Policy
		down   time.Duration // until an instance is started again
		want   []string      // at 03:30
	}{
		{"attempts left", usual, time.Minute, []string{again, ran, now}},
		{"past its grace", short, time.Minute, []string{again, missed, now}},
		{"skipping", skip, time.Minute, []string{again, missed, now}},
		{"no attempt left", single, time.Minute, []string{cutOff, ran, now}},
		{"later slot due", usual, time.Hour, []string{cutOff, ran, now}},
		{"later slot due, skipping", skip, time.Hour, []string{cutOff, missed, now}},
		{"later slot due, all", all, time.Hour, []string{again, "02:00 running 1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				d := &diary{table: tb}
				until(30 * time.Minute)
				first := start(t, tb, leader.Config{})
				stop := first.follow(t, hourly, tt.policy, d.work(59*time.Minute))
				until(90 * time.Minute)
				first.crash()
				stop()
				time.Sleep(tt.down)
				next := start(t, tb, leader.Config{})
				next.follow(t, hourly, tt.policy, d.work(59*time.Minute))
				until(3*time.Hour + 30*time.Minute)
				wantOutcomes(t, tb, tt.want...)
			})
		})
	}
}

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

// The leader's renewals fail while it works on the slot of 01:00, and nobody else is there to take
// over.
func TestSlotWhoseTermIsLostIsNeverDecidedByItsWork(t *testing.T) {
	heeds := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	deaf := func(err error) func(context.Context) error {
		return func(context.Context) error {
			time.Sleep(time.Minute)
			return err
		}
	}
	for _, tt := range []struct {
		name     string
		work     func(context.Context) error
		attempts int
		want     string // when the next leader has come
	}{
		{"work that heeds its context", heeds, 3, "01:00 done 2"},
		{"deaf work that succeeds", deaf(nil), 3, "01:00 done 2"},
		{"deaf work that fails", deaf(errBroken), 3, "01:00 done 2"},
		{"work that heeds its context, last attempt", heeds, 1, "01:00 abandoned 1"},
		{"deaf work that succeeds, last attempt", deaf(nil), 1, "01:00 abandoned 1"},
		{"deaf work that fails, last attempt", deaf(errBroken), 1, "01:00 abandoned 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				d := &diary{table: tb}
				until(30 * time.Minute)
				p := start(t, tb, leader.Config{})
				policy := schedule.Policy{Attempts: tt.attempts}
				unrenewed := pgfake.Only(pgfake.KindRenewOne, pgfake.Trouble{Fails: pgfake.ErrReset})
				returned := make(chan struct{})
				work := func(ctx context.Context, s *schedule.Slot) error {
					defer close(returned)
					d.note(s)
					p.path.Suffer(unrenewed)
					err := tt.work(ctx)
					if cause := context.Cause(ctx); !errors.Is(cause, leader.ErrLost) {
						t.Errorf("the work's context ended with the cause %v, want leader.ErrLost", cause)
					}
					tb.Put("job", "an instance that only leads", 10*time.Minute)
					return err
				}
				stop := p.follow(t, daily(time.Hour), policy, work)
				<-returned
				time.Sleep(time.Minute)
				wantOutcomes(t, tb, "01:00 running 1")
				stop()
				until(time.Hour + 30*time.Minute)
				start(t, tb, leader.Config{}).follow(t, daily(time.Hour), policy, d.work(0))
				time.Sleep(time.Minute)
				wantOutcomes(t, tb, tt.want)
			})
		})
	}
}

// Until its next renewal the old leader doesn't know, and its claims find no live term.
func TestLeaderThatWasDismissedDoesNotAskAllTheTimeForASlotThatIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		d := &diary{table: tb}
		until(time.Hour - 16*time.Second) // it renews every 5 s
		p := start(t, tb, leader.Config{})
		p.path.Suffer(pgfake.Always(pgfake.Trouble{Slow: time.Millisecond}))
		p.follow(t, hourly, schedule.Policy{}, d.work(0))
		until(time.Hour - 10*time.Millisecond)
		if _, err := start(t, tb, leader.Config{}).Dismiss(t.Context(), "job"); err != nil {
			t.Fatal(err)
		}
		until(time.Hour + 10*time.Second)
		claims := p.path.Asked(midnight().Add(time.Hour-time.Second), pgfake.KindClaimSlot)
		if n := len(claims); n > 10 {
			t.Errorf("%d claims within some seconds", n)
		}
		until(time.Hour + time.Minute)
		wantOutcomes(t, tb, "01:00 done 1")
	})
}

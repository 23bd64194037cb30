package contract_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

// The lease is taken away while the work goes on. Whatever the work returns then, it has not
// finished the slot: that stays as it is until the next leader comes, who runs it as the second
// attempt.
func TestSlotOfALostTermIsLeftToTheNextLeader(t *testing.T) {
	t.Parallel()
	heeds := func(ctx context.Context, _ *schedule.Slot) error { return ctx.Err() }
	deaf := func(context.Context, *schedule.Slot) error { return nil }
	fails := func(context.Context, *schedule.Slot) error { return errors.New("it went wrong") }
	for _, tt := range []struct {
		name    string
		goesOn  func(context.Context, *schedule.Slot) error // after the loss
		expires bool                                        // the lease expires, and nobody takes it
	}{
		{"work that heeds its context, lease taken", heeds, false},
		{"deaf work that succeeds, lease taken", deaf, false},
		{"deaf work that fails, lease taken", fails, false},
		{"work that heeds its context, lease expired", heeds, true},
		{"deaf work that succeeds, lease expired", deaf, true},
		{"deaf work that fails, lease expired", fails, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			forEachDriver(t, func(t *testing.T, driver, url string) {
				pool := pgtest.Open(t, driver, url)
				slot := databaseNow(t, pool).Add(-time.Minute)
				e := slotElector(t, pool, quick)
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				ran, err := e.RunSlot(ctx, job, slot, func(workCtx context.Context, s *schedule.Slot) error {
					if tt.expires {
						expire(t, pool, job)
					} else {
						mustExec(t, pool, `UPDATE leader_lease SET holder = 'operator', token = token + 1,
							expires_at = clock_timestamp()`)
					}
					<-workCtx.Done()
					if cause := context.Cause(workCtx); !errors.Is(cause, leader.ErrLost) {
						t.Errorf("the work's context ended with the cause %v, want ErrLost", cause)
					}
					tx := begin(t, pool, 0)
					if err := s.Complete(t.Context(), tx); !errors.Is(err, leader.ErrLost) {
						t.Errorf("Complete = %v, want ErrLost", err)
					}
					rollback(t, tx)
					cancel() // so that this instance is not the next leader
					return tt.goesOn(workCtx, s)
				})
				if ran || err == nil {
					t.Errorf("RunSlot = %v, %v; want an error, and that it did not run to its end", ran, err)
				}
				onRecord(t, e, job, schedule.StateRunning, 1)
				if by := history(t, e, job)[0].Holder; by != e.Holder() {
					t.Errorf("before the next leader comes, the slot is %s's", by)
				}

				next := slotElector(t, pool, leader.Config{})
				second := func(_ context.Context, s *schedule.Slot) error {
					if s.Attempt() != 2 {
						t.Errorf("attempt %d, want 2", s.Attempt())
					}
					return nil
				}
				ran, err = next.RunSlot(t.Context(), job, slot, second)
				if !ran || err != nil {
					t.Errorf("the next leader's RunSlot = %v, %v", ran, err)
				}
				onRecord(t, e, job, schedule.StateDone, 2)
				if by := history(t, e, job)[0].Holder; by != next.Holder() {
					t.Errorf("after it, the slot is %s's, want the next leader's", by)
				}
			})
		})
	}
}

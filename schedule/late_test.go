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

// A slot fails, is requested, and its second attempt takes half an hour. The first statement of one
// kind loses its answer, is retried, and arrives once more later. That is before the request,
// before the second attempt, during it, or after it.
func TestLateDuplicateOfAnyStatementDecidesNothing(t *testing.T) {
	const requested = time.Hour + 10*time.Minute + 200*time.Millisecond // just after a look
	for _, kind := range []pgfake.Kind{
		pgfake.KindSurvey, pgfake.KindAbandon, pgfake.KindClaimSlot, pgfake.KindFinishSlot,
		pgfake.KindMissSlots, pgfake.KindPrune, pgfake.KindReadSlot, pgfake.KindRequestSlot,
	} {
		for _, again := range []time.Duration{
			5 * time.Minute, 10*time.Minute + 500*time.Millisecond, 20 * time.Minute, 45 * time.Minute,
		} {
			t.Run(fmt.Sprint(kind, " ", again), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					tb := pgfake.NewTable()
					d := &diary{table: tb}
					until(30 * time.Minute)
					p, operator := start(t, tb, leader.Config{}), start(t, tb, leader.Config{})
					for _, path := range []*pgfake.Path{p.path, operator.path} {
						path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
							if s.Kind == kind && s.Nth == 1 {
								return pgfake.Trouble{Loses: pgfake.ErrReset, Again: again}
							}
							return pgfake.Trouble{}
						})
					}
					work := func(ctx context.Context, s *schedule.Slot) error {
						d.note(s)
						if s.Attempt() == 1 {
							return errBroken
						}
						return sleep(ctx, 30*time.Minute)
					}
					p.follow(t, daily(time.Hour), schedule.Policy{}, work)
					until(requested)
					for operator.Rerun(t.Context(), "job", midnight().Add(time.Hour)) != nil {
						// its answer was lost
					}
					until(time.Hour + 30*time.Minute)
					wantOutcomes(t, tb, "01:00 running 2")
					until(3 * time.Hour)
					wantOutcomes(t, tb, "01:00 done 2")
					if n := len(d.all()); n != 2 {
						t.Errorf("the slot was run %d times, want 2", n)
					}
				})
			})
		}
	}
}

// A failed slot is started again by the policy, under the same term. The end of its first attempt
// arrives once more while the second is at work, which completes it in a transaction.
func TestLateEndOfAnAttemptDoesNotDecideTheNextOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, leader.Config{})
		p.path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
			if s.Kind == pgfake.KindFinishSlot && s.Nth == 1 {
				return pgfake.Trouble{Loses: pgfake.ErrReset, Again: 10 * time.Minute}
			}
			return pgfake.Trouble{}
		})
		until(30 * time.Minute)
		policy := schedule.Policy{RepeatFailed: true}
		p.follow(t, daily(time.Hour), policy, func(ctx context.Context, s *schedule.Slot) error {
			if s.Attempt() == 1 {
				return errBroken
			}
			if err := sleep(ctx, 20*time.Minute); err != nil {
				return err
			}
			tx, err := p.pool.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer tx.Rollback()
			if err := s.Complete(ctx, tx); err != nil {
				return err
			}
			return tx.Commit()
		})
		until(2 * time.Hour)
		wantOutcomes(t, tb, "01:00 done 2")
		ends := p.reported(schedule.EventFinished)
		if len(ends) != 2 ||
			ends[0].State != schedule.StateFailed || ends[1].State != schedule.StateDone {
			t.Errorf("the ends reported are %+v", ends)
		}
	})
}

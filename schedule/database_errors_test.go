package schedule_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/pgleader/pgleader/internal/pgfake"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

// Where the default isolation is a strict one, the server gives up one of two concurrent
// statements.
func TestOperatorsStatementsAreAskedAgainWhenARivalsCameFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		putSlot(tb, midnight(), schedule.StateFailed, 1)
		p := start(t, tb, leader.Config{})
		p.path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
			if s.Nth == 1 && s.Kind != pgfake.KindAcquire {
				return pgfake.Trouble{Fails: pgfake.ServerError("40001")}
			}
			return pgfake.Trouble{}
		})
		if err := p.Rerun(t.Context(), "job", midnight()); err != nil {
			t.Error(err)
		}
		if runs, err := p.History(t.Context(), "job", 10); err != nil || len(runs) != 1 || runs[0].State != schedule.StateRequested {
			t.Errorf("History = %+v, %v", runs, err)
		}
		due, err := p.RunDue(t.Context(), "job", hourly, schedule.Policy{}, func(context.Context, *schedule.Slot) error { return nil })
		if err != nil || due.Ran != 1 {
			t.Errorf("RunDue = %+v, %v; want 1 run", due, err)
		}
	})
}

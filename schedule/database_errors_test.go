package schedule_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/internal/pgfake"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

// These errors are no passing ones by their kind, but were seen to pass. A pooler has lost a
// prepared statement, a migration has made a plan stale, a password was changed.
func TestScheduleOutlivesErrorsOfTheDatabase(t *testing.T) {
	for _, state := range []string{"26000", "0A000", "28P01", "XX000"} {
		for _, kind := range []pgfake.Kind{
			pgfake.KindSurvey, pgfake.KindAbandon, pgfake.KindClaimSlot,
			pgfake.KindFinishSlot, pgfake.KindPrune,
		} {
			t.Run(state+" "+string(kind), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					tb := pgfake.NewTable()
					d := &diary{table: tb}
					putSlot(tb, midnight(), schedule.StateAbandoned, 1)
					p := start(t, tb, leader.Config{})
					p.path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
						if s.Kind == kind && s.Nth == 1 {
							return pgfake.Trouble{Fails: pgfake.ServerError(state)}
						}
						return pgfake.Trouble{}
					})
					p.follow(t, hourly, schedule.Policy{}, d.work(time.Second))
					until(time.Hour + time.Minute)
					wantOutcomes(t, tb, "00:00 done 2", "01:00 done 1")
					if n := len(d.all()); n != 2 {
						t.Errorf("%d runs, want 2", n)
					}
				})
			})
		}
	}
}

// A database in LATIN1 takes the job's name, and not what the work says.
func TestErrorThatTheDatabaseCannotStoreFailsTheSlotAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, leader.Config{})
		p.path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
			if s.Kind == pgfake.KindFinishSlot && s.Nth == 1 {
				return pgfake.Trouble{Fails: pgfake.ServerError("22P05")}
			}
			return pgfake.Trouble{}
		})
		broken := errors.New("紙がない: no paper")
		ran, err := p.RunSlot(t.Context(), "job", midnight(), returning(broken))
		if !ran || !errors.Is(err, broken) {
			t.Errorf("RunSlot = %v, %v; want the work's error", ran, err)
		}
		wantOutcomes(t, tb, "00:00 failed 1")
		if got, want := tb.Slots()[0].Error, "????: no paper"; got != want {
			t.Errorf("on record is %q, want %q", got, want)
		}
	})
}

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
		runs, err := p.History(t.Context(), "job", 10)
		if err != nil || len(runs) != 1 || runs[0].State != schedule.StateRequested {
			t.Errorf("History = %+v, %v", runs, err)
		}
		due, err := p.RunDue(t.Context(), "job", hourly, schedule.Policy{}, returning(nil))
		if err != nil || due.Ran != 1 {
			t.Errorf("RunDue = %+v, %v; want 1 run", due, err)
		}
	})
}

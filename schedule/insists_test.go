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

// The work calls Complete and forgets the transaction. What became of the slot can't be recorded
// while that is open.
func TestForgottenTransactionHoldsAShutdownUpForNoLongerThanATTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		until(30 * time.Minute)
		p := start(t, tb, leader.Config{})
		forgotten, forget := context.WithCancel(context.Background())
		defer forget()
		work := func(ctx context.Context, s *schedule.Slot) error {
			tx, err := p.pool.BeginTx(forgotten, nil)
			if err != nil {
				return err
			}
			return s.Complete(ctx, tx)
		}
		stop := p.follow(t, daily(time.Hour), schedule.Policy{}, work)
		until(2 * time.Hour) // it is insisted on while nobody shuts down
		wantOutcomes(t, tb, "01:00 running 1")
		slot := midnight().Add(time.Hour)
		retries := p.reported(schedule.EventRetry)
		if len(retries) != 1 || !retries[0].Slot.Equal(slot) || retries[0].Err == nil {
			t.Errorf("reported %+v, want the first failure, with its slot", retries)
		}
		began := time.Now()
		stop()
		within(t, began, 15*time.Second+2*5*time.Second, "the shutdown was over") // a TTL, and two calls
		if tb.Live("job") {
			t.Error("the lease was not released")
		}
		end := p.reported(schedule.EventFinished)
		if len(end) != 1 || end[0].State != "" || end[0].Err == nil {
			t.Errorf("the end reported is %+v, want one of which the record is not known", end)
		}
	})
}

// Somebody has the row locked in psql, for an hour.
func TestLockedRowDelaysTheRecordAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		until(30 * time.Minute)
		p := start(t, tb, leader.Config{})
		p.follow(t, daily(time.Hour), schedule.Policy{}, func(context.Context, *schedule.Slot) error {
			unlock := tb.LockSlot("job", midnight().Add(time.Hour))
			time.AfterFunc(time.Hour, unlock)
			return nil
		})
		until(90 * time.Minute)
		wantOutcomes(t, tb, "01:00 running 1")
		until(2*time.Hour + time.Minute)
		wantOutcomes(t, tb, "01:00 done 1")
	})
}

// A trigger of the user's refuses the record, for as long as it is there.
func TestRecordThatIsRefusedIsLeftToTheNextLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		d := &diary{table: tb}
		until(30 * time.Minute)
		p := start(t, tb, leader.Config{})
		p.path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
			if s.Kind == pgfake.KindFinishSlot && time.Since(midnight()) < 90*time.Minute {
				return pgfake.Trouble{Fails: pgfake.ServerError("P0001")}
			}
			return pgfake.Trouble{}
		})
		p.follow(t, hourly, schedule.Policy{}, d.work(0))
		until(90 * time.Minute)
		wantOutcomes(t, tb, "01:00 abandoned 3") // it was run three times, and never recorded
		until(2*time.Hour + time.Minute)
		wantOutcomes(t, tb, "01:00 abandoned 3", "02:00 done 1")
	})
}

// The call of a program that cron starts does not wait for what will not pass, nor runs it again.
func TestOneCallReturnsWhatCouldNotBeRecorded(t *testing.T) {
	refused := pgfake.Only(pgfake.KindFinishSlot, pgfake.Trouble{Fails: pgfake.ServerError("P0001")})
	for name, call := range map[string]func(*process, slotFunc) error{
		"RunDue": func(p *process, work slotFunc) error {
			_, err := p.RunDue(context.Background(), "job", hourly, schedule.Policy{}, work)
			return err
		},
		"RunSlot": func(p *process, work slotFunc) error {
			_, err := p.RunSlot(context.Background(), "job", midnight(), work)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				d := &diary{table: tb}
				p := start(t, tb, leader.Config{})
				p.path.Suffer(refused)
				began := time.Now()
				err := call(p, func(_ context.Context, s *schedule.Slot) error {
					d.note(s)
					return errBroken
				})
				var server pgfake.ServerError
				if !errors.Is(err, errBroken) || !errors.As(err, &server) {
					t.Errorf("%v, want the work's error and the server's", err)
				}
				within(t, began, 20*time.Second, "the call returned")
				if n := len(d.all()); n != 1 {
					t.Errorf("%d runs, want 1", n)
				}
			})
		})
	}
}

// Somebody has a row locked in psql that is old enough to be deleted.
func TestLockedOldRowHoldsNoSlotUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		d := &diary{table: tb}
		putSlot(tb, midnight().Add(-time.Hour), schedule.StateDone, 1)
		putSlot(tb, midnight(), schedule.StateDone, 1)
		time.AfterFunc(4*time.Hour, tb.LockSlot("job", midnight().Add(-time.Hour)))
		until(30 * time.Minute)
		policy := schedule.Policy{Keep: 90 * time.Minute}
		start(t, tb, leader.Config{}).follow(t, hourly, policy, d.work(0))
		until(3*time.Hour + time.Minute)
		wantOutcomes(t, tb, "23:00 done 1", "02:00 done 1", "03:00 done 1")
		until(5*time.Hour + time.Minute)
		wantOutcomes(t, tb, "04:00 done 1", "05:00 done 1")
	})
}

// The lease is renewed, and everything else fails in a way that may pass: as when somebody has the
// table locked.
func TestQuestionsThatFailWhileTheTermLivesAreReported(t *testing.T) {
	for _, kind := range []pgfake.Kind{
		pgfake.KindSurvey, pgfake.KindAbandon, pgfake.KindMissSlots, pgfake.KindClaimSlot,
		pgfake.KindPrune,
	} {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				d := &diary{table: tb}
				putSlot(tb, midnight().Add(-3*time.Hour), schedule.StateDone, 1)
				p := start(t, tb, leader.Config{})
				locked := pgfake.ServerError("55P03")
				p.path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
					first := kind == pgfake.KindSurvey && s.Nth == 1
					if s.Kind == kind && !first && time.Since(midnight()) < 30*time.Minute {
						return pgfake.Trouble{Fails: locked}
					}
					return pgfake.Trouble{}
				})
				p.follow(t, hourly, schedule.Policy{}, d.work(0))
				until(29 * time.Minute)
				retries := p.reported(schedule.EventRetry)
				if len(retries) != 1 || !errors.Is(retries[0].Err, locked) || retries[0].Token == 0 {
					t.Errorf("reported %+v, want the first failure", retries)
				}
				until(time.Hour + time.Minute)
				wantOutcomes(t, tb,
					"21:00 done 1", "22:00 missed 0", "23:00 missed 0", "00:00 done 1", "01:00 done 1")
			})
		})
	}
}

func TestShutdownDuringAQuestionIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, leader.Config{})
		stop := p.follow(t, hourly, schedule.Policy{}, (&diary{table: tb}).work(0))
		until(30*time.Minute + 15*time.Second)
		p.path.Suffer(pgfake.Only(pgfake.KindSurvey, pgfake.Trouble{Slow: 2 * time.Second}))
		until(30*time.Minute + 31*time.Second) // it looks every 30 s
		stop()
		if retries := p.reported(schedule.EventRetry); len(retries) != 0 {
			t.Errorf("reported %+v", retries)
		}
	})
}

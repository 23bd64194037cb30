package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/internal/pgfake"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

// The same leader claims a slot that it gave back, because somebody requests it. What gave it back,
// or claimed it at first, arrives once more before the second claim or while its work runs.
func TestLateDuplicateOfAClaimGivenBackDoesNotConcernTheRequestedRun(t *testing.T) {
	const requested = time.Hour + 2*time.Minute + 9500*time.Millisecond
	for _, kind := range []pgfake.Kind{pgfake.KindClaimSlot, pgfake.KindGiveBackSlot} {
		for _, again := range []time.Duration{2*time.Minute + 10*time.Second, 20 * time.Minute} {
			t.Run(fmt.Sprint(kind, " ", again), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					tb := pgfake.NewTable()
					d := &diary{table: tb}
					until(30 * time.Minute)
					p, operator := start(t, tb, leader.Config{}), start(t, tb, leader.Config{})
					p.path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
						if s.Kind == kind && s.Nth == 1 {
							return pgfake.Trouble{Loses: pgfake.ErrReset, Again: again}
						}
						return pgfake.Trouble{}
					})
					p.follow(t, daily(time.Hour), schedule.Policy{},
						func(ctx context.Context, s *schedule.Slot) error {
							d.note(s)
							if len(d.all()) == 1 {
								return schedule.ErrNotStarted
							}
							return sleep(ctx, 30*time.Minute)
						})
					until(requested)
					if err := operator.Rerun(t.Context(), "job", midnight().Add(time.Hour)); err != nil {
						t.Fatal(err)
					}
					until(time.Hour + 30*time.Minute)
					wantOutcomes(t, tb, "01:00 running 2")
					until(3 * time.Hour)
					wantOutcomes(t, tb, "01:00 done 2")
					if n := len(d.all()); n != 2 {
						t.Errorf("the slot was begun %d times, want 2", n)
					}
				})
			})
		}
	}
}

// The answer to a claim is lost, and before the next try the leader is dismissed.
func TestClaimThatWasGrantedToATermThatIsOverIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		d := &diary{table: tb}
		until(30 * time.Minute)
		p, operator := start(t, tb, leader.Config{}), start(t, tb, leader.Config{})
		p.path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
			if s.Kind == pgfake.KindClaimSlot && s.Nth == 1 {
				return pgfake.Trouble{Slow: 100 * time.Millisecond, Loses: pgfake.ErrReset}
			}
			return pgfake.Trouble{}
		})
		p.follow(t, daily(time.Hour), schedule.Policy{Attempts: 1}, d.work(0))
		until(time.Hour + 50*time.Millisecond)
		if _, err := operator.Dismiss(t.Context(), "job"); err != nil {
			t.Fatal(err)
		}
		until(time.Hour + time.Minute)
		wantOutcomes(t, tb, "01:00 done 1")
		if n := len(p.reported(schedule.EventGivenBack)); n != 1 {
			t.Errorf("%d slots were reported as given back, want 1", n)
		}
	})
}

// The leader stays, so nobody would find the slot if it were left running.
func TestTermIsGivenUpWhenWorkThatWasNotStartedCannotBeGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		until(30 * time.Minute)
		p := start(t, tb, leader.Config{})
		p.path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
			if s.Kind == pgfake.KindGiveBackSlot {
				return pgfake.Trouble{Fails: pgfake.ErrReset}
			}
			return pgfake.Trouble{}
		})
		p.follow(t, daily(time.Hour), schedule.Policy{}, func(_ context.Context, s *schedule.Slot) error {
			if s.Attempt() == 1 {
				return schedule.ErrNotStarted
			}
			return nil
		})
		until(time.Hour + time.Minute)
		wantOutcomes(t, tb, "01:00 done 2")
		ends := p.reported(schedule.EventFinished)
		if len(ends) != 2 || ends[0].State != "" || !errors.Is(ends[0].Err, schedule.ErrNotStarted) {
			t.Errorf("the ends reported are %+v, want that the first one is not known", ends)
		}
	})
}

// What the work says has characters that the database lacks.
func TestSlotIsGivenBackWithWhatTheDatabaseCanStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, leader.Config{})
		p.path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
			if s.Kind == pgfake.KindGiveBackSlot && s.Nth == 1 {
				return pgfake.Trouble{Fails: pgfake.ServerError("22P05")}
			}
			return pgfake.Trouble{}
		})
		_, err := p.RunDue(t.Context(), "job", hourly, schedule.Policy{},
			func(context.Context, *schedule.Slot) error {
				return fmt.Errorf("終: %w", schedule.ErrNotStarted)
			})
		if !errors.Is(err, schedule.ErrNotStarted) {
			t.Errorf("RunDue = %v, want the work's error", err)
		}
		wantOutcomes(t, tb, "00:00 abandoned 0")
		got := tb.Slots()[0].Error
		if !strings.HasSuffix(got, ": ?: schedule: the work was not started") {
			t.Errorf("the record says %q", got)
		}
	})
}

func TestOneCallReturnsThatItsWorkWasNotStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, leader.Config{})
		ran, err := p.RunSlot(t.Context(), "job", midnight(),
			func(context.Context, *schedule.Slot) error {
				return schedule.ErrNotStarted
			})
		if ran || !errors.Is(err, schedule.ErrNotStarted) {
			t.Errorf("RunSlot = %v, %v; want the work's error", ran, err)
		}
		wantOutcomes(t, tb, "00:00 abandoned 0")
	})
}

// It has done everything, whatever it says.
func TestCompletedWorkIsNotGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, leader.Config{})
		ran, err := p.RunSlot(t.Context(), "job", midnight(),
			func(ctx context.Context, s *schedule.Slot) error {
				tx, err := p.pool.BeginTx(ctx, nil)
				if err != nil {
					return err
				}
				defer tx.Rollback()
				if err := errors.Join(s.Complete(ctx, tx), tx.Commit()); err != nil {
					return err
				}
				return schedule.ErrNotStarted
			})
		if !ran || !errors.Is(err, schedule.ErrNotStarted) {
			t.Errorf("RunSlot = %v, %v; want its run, and the work's error", ran, err)
		}
		wantOutcomes(t, tb, "00:00 done 1")
		ends := p.reported(schedule.EventFinished)
		if len(ends) != 1 || ends[0].State != schedule.StateDone {
			t.Errorf("the ends reported are %+v, want the slot done", ends)
		}
	})
}

// All machines are suspended for a minute while the answer to a claim is underway. Until the wall
// clock is compared, no context has ended.
func TestWorkIsNotBegunUnderATermThatASuspensionHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		until(30 * time.Minute)
		p := start(t, tb, leader.Config{})
		wall := p.setWall(t)
		p.path.Suffer(pgfake.Only(pgfake.KindClaimSlot, pgfake.Trouble{Slow: 100 * time.Millisecond}))
		p.follow(t, daily(time.Hour), schedule.Policy{Attempts: 1},
			func(_ context.Context, s *schedule.Slot) error {
				return s.Term().Err()
			})
		until(time.Hour + 50*time.Millisecond)
		tb.Step(time.Minute)
		wall.Add(int64(time.Minute))
		until(time.Hour + 2*time.Minute)
		wantOutcomes(t, tb, "01:00 done 1")
		if n := len(p.reported(schedule.EventStarted)); n != 1 {
			t.Errorf("the work was begun %d times, want once", n)
		}
	})
}

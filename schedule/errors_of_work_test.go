package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/internal/pgfake"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

// The end can't be recorded before the term is lost, and the slot has no attempts left.
func TestErrorOfTheLastAttemptReachesTheCallerThoughItIsNotOnRecord(t *testing.T) {
	for name, call := range map[string]func(*process, slotFunc) error{
		"RunDue": func(p *process, work slotFunc) error {
			_, err := p.RunDue(context.Background(), "job", hourly, schedule.Policy{Attempts: 1}, work)
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
				p := start(t, tb, leader.Config{})
				p.path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
					if s.Kind == pgfake.KindFinishSlot || s.Renews() {
						return pgfake.Trouble{Fails: pgfake.ErrReset}
					}
					return pgfake.Trouble{}
				})
				err := call(p, returning(errBroken))
				if !errors.Is(err, errBroken) {
					t.Errorf("%v, want the work's error", err)
				}
				if row := tb.Slots()[0]; row.State != string(schedule.StateAbandoned) {
					t.Errorf("the slot is %s, want abandoned", row.State)
				}
			})
		})
	}
}

// The slot is on record as failed, the answer to that is lost, and the call ends before the path is
// back.
func TestErrorOfWorkReachesACallThatEndsBeforeThePathIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, pgfake.NewTable(), leader.Config{})
		down := false
		p.path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
			if s.Kind == pgfake.KindFinishSlot && !down {
				down = true
				return pgfake.Trouble{Loses: pgfake.ErrReset}
			}
			if down {
				return pgfake.Trouble{Fails: pgfake.ErrReset}
			}
			return pgfake.Trouble{}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		ran, err := p.RunSlot(ctx, "job", midnight(), returning(errBroken))
		if ran || !errors.Is(err, errBroken) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("RunSlot = %v, %v; want the work's error and the context's", ran, err)
		}
	})
}

// The role may not delete.
func TestErrorOfWorkIsReturnedBesideOneOfClearingAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, pgfake.NewTable(), leader.Config{})
		p.path.Suffer(pgfake.Only(pgfake.KindPrune, pgfake.Trouble{Fails: pgfake.ServerError("42501")}))
		due, err := p.RunDue(t.Context(), "job", hourly, schedule.Policy{},
			returning(errBroken))
		if due.Ran != 1 || !errors.Is(err, errBroken) || !errors.Is(err, leader.ErrForbidden) {
			t.Errorf("RunDue = %+v, %v; want the work's error and the server's", due, err)
		}
	})
}

// What work returns after the end of the call's context says why it was cut off, and may not say
// that it was.
func TestCallThatIsCutOffReturnsTheErrorsOfWorkAndOfItsContext(t *testing.T) {
	for name, call := range map[string]func(context.Context, *process, slotFunc) error{
		"RunDue": func(ctx context.Context, p *process, work slotFunc) error {
			_, err := p.RunDue(ctx, "job", hourly, schedule.Policy{}, work)
			return err
		},
		"RunSlot": func(ctx context.Context, p *process, work slotFunc) error {
			_, err := p.RunSlot(ctx, "job", midnight(), work)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				p := start(t, pgfake.NewTable(), leader.Config{})
				err := call(ctx, p, func(ctx context.Context, _ *schedule.Slot) error {
					<-ctx.Done()
					return errBroken
				})
				if !errors.Is(err, errBroken) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v, want the work's error and the context's", err)
				}
			})
		})
	}
}

// Work may return any error: of another term, of another database, of another schedule.
func TestErrorOfWorkIsNeverTakenForOneOfTheSchedule(t *testing.T) {
	for name, foreign := range map[string]error{
		"lost": leader.ErrLost, "forbidden": leader.ErrForbidden, "schedule": schedule.ErrSchedule,
	} {
		fails := returning(fmt.Errorf("elsewhere: %w", foreign))
		t.Run(name+", RunDue", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t, pgfake.NewTable(), leader.Config{})
				p.path.Suffer(pgfake.Always(pgfake.Trouble{Slow: time.Millisecond}))
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				due, err := p.RunDue(ctx, "job", hourly, schedule.Policy{}, fails)
				if due.Ran != 1 || !errors.Is(err, foreign) || ctx.Err() != nil {
					t.Errorf("RunDue = %+v, %v; want the work's error, at once", due, err)
				}
			})
		})
		t.Run(name+", Run", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				until(30 * time.Minute)
				p := start(t, tb, leader.Config{})
				p.path.Suffer(func(s pgfake.Statement) pgfake.Trouble { // until 02:30 it can't be recorded
					if s.Kind == pgfake.KindFinishSlot && time.Since(midnight()) < 150*time.Minute {
						return pgfake.Trouble{Fails: pgfake.ServerError("P0001")}
					}
					return pgfake.Trouble{}
				})
				p.follow(t, hourly, schedule.Policy{}, fails)
				until(3*time.Hour + time.Minute)
				wantOutcomes(t, tb, "01:00 abandoned 3", "02:00 abandoned 3", "03:00 failed 1")
			})
		})
		t.Run(name+", RunSlot", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				p := start(t, tb, leader.Config{})
				ran, err := p.RunSlot(t.Context(), "job", midnight(),
					func(ctx context.Context, s *schedule.Slot) error {
						if s.Attempt() == 1 {
							tb.Put("job", "thief", time.Second)
							<-ctx.Done()
							return foreign
						}
						return nil
					})
				if !ran || err != nil {
					t.Errorf("RunSlot = %v, %v; want its second attempt", ran, err)
				}
			})
		})
	}
}

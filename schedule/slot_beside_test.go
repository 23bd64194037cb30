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

// The leader of the schedule never gives its lease up, so there is no claim that could tell.
func TestRunSlotReturnsWhenTheLeaderOfAScheduleHasRunTheSlot(t *testing.T) {
	for name, own := range map[string]bool{"in another process": false, "in the same process": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				d := &diary{table: tb}
				until(30 * time.Minute)
				leads := start(t, tb, leader.Config{})
				leads.follow(t, hourly, schedule.Policy{}, d.work(10*time.Minute))
				time.Sleep(time.Minute)
				p := leads
				if !own {
					p = start(t, tb, leader.Config{})
				}
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
				defer cancel()
				ran, err := p.RunSlot(ctx, "job", midnight().Add(time.Hour), d.work(0))
				if ran || err != nil {
					t.Errorf("RunSlot = %v, %v; want that another call has run it", ran, err)
				}
				if late := time.Since(midnight().Add(70 * time.Minute)); late < 0 || late > 2*time.Second {
					t.Errorf("RunSlot returned %v after the end of the slot's work", late)
				}
				wantOutcomes(t, tb, "01:00 done 1")
			})
		})
	}
}

func TestRunSlotDoesNotClaimARunThatWasCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, leader.Config{})
		ran, err := p.RunSlot(t.Context(), "job", midnight(), func(ctx context.Context, _ *schedule.Slot) error {
			tb.Put("job", "thief", time.Second)
			<-ctx.Done()
			return ctx.Err()
		})
		if ran || err != nil {
			t.Errorf("RunSlot = %v, %v; want no run to its end", ran, err)
		}
		wantOutcomes(t, tb, "00:00 abandoned 3")
	})
}

// The failure is recorded, but no answer says so before the term is lost.
func TestRunSlotReturnsTheWorksErrorAlsoWhenTheTermIsLostRightAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, leader.Config{})
		broken := errors.New("no paper")
		time.AfterFunc(20*time.Second, func() { p.path.Suffer(nil) })
		ran, err := p.RunSlot(t.Context(), "job", midnight(), func(context.Context, *schedule.Slot) error {
			p.path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
				if s.Kind == pgfake.KindFinishSlot || s.Renews() {
					return pgfake.Trouble{Loses: pgfake.ErrReset}
				}
				return pgfake.Trouble{}
			})
			return broken
		})
		if !ran || !errors.Is(err, broken) {
			t.Errorf("RunSlot = %v, %v; want the work's error", ran, err)
		}
		wantOutcomes(t, tb, "00:00 failed 1")
	})
}

// The lease is free, and cannot be had: its row is locked in psql, or this process's own work of a
// lost term has not returned.
func TestRunSlotPausesBetweenClaimsOfALeaseThatIsFreeAndNotToBeHad(t *testing.T) {
	for name, occupy := range map[string]func(*pgfake.Table, *process){
		"locked": func(tb *pgfake.Table, _ *process) {
			tb.Put("job", "gone", 0)
			time.AfterFunc(30*time.Second, tb.Lock("job"))
		},
		"deaf work": func(tb *pgfake.Table, p *process) {
			ctx, cancel := context.WithCancel(context.Background())
			go p.Elector.Run(ctx, "job", func(context.Context, *leader.Term) error { //nolint:errcheck // no matter
				tb.Put("job", "thief", 0)
				time.Sleep(30 * time.Second)
				cancel()
				return nil
			})
			time.Sleep(10 * time.Second) // the next renewal finds out
		},
		"dismissed": func(tb *pgfake.Table, p *process) {
			term, _, _ := p.TryAcquire(context.Background(), "job")
			p.path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
				return pgfake.Trouble{Slow: time.Millisecond, Hangs: s.Renews()}
			})
			tb.Free("job")
			go func() {
				<-term.Context().Done()
				p.path.Suffer(pgfake.Always(pgfake.Trouble{Slow: time.Millisecond}))
			}()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				p := start(t, tb, leader.Config{})
				p.path.Suffer(pgfake.Always(pgfake.Trouble{Slow: time.Millisecond}))
				occupy(tb, p)
				ran, err := p.RunSlot(t.Context(), "job", midnight(), (&diary{table: tb}).work(0))
				if !ran || err != nil {
					t.Errorf("RunSlot = %v, %v; want a run", ran, err)
				}
				within(t, midnight(), 32*time.Second, "the slot was run")
				if n := len(p.path.Asked(midnight(), pgfake.KindReadSlot)); n > 40 {
					t.Errorf("the slot was read %d times", n)
				}
			})
		})
	}
}

// Another instance leads the job, and then gives it up.
func TestRunSlotTakesOverWhenTheLeaseBecomesFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		term := start(t, tb, leader.Config{}).mustLead(t, "job")
		time.AfterFunc(10*time.Minute, func() { mustResign(t, term) })
		p := start(t, tb, leader.Config{})
		ran, err := p.RunSlot(t.Context(), "job", midnight(), (&diary{table: tb}).work(0))
		if !ran || err != nil {
			t.Errorf("RunSlot = %v, %v; want a run", ran, err)
		}
		within(t, midnight().Add(10*time.Minute), 2*time.Second, "the slot was run")
	})
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
		if n := len(p.path.Asked(midnight().Add(time.Hour-time.Second), pgfake.KindClaimSlot)); n > 10 {
			t.Errorf("%d claims within some seconds", n)
		}
		until(time.Hour + time.Minute)
		wantOutcomes(t, tb, "01:00 done 1")
	})
}

// Here the slot has a record, which is an answer to every claim.
func TestLeaderThatWasDismissedDoesNotAskAllTheTimeForASlotThatIsRequested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		d := &diary{table: tb}
		until(time.Hour - 16*time.Second) // it renews every 5 s, and looks when a slot comes
		putSlot(tb, midnight(), schedule.StateDone, 1)
		p, operator := start(t, tb, leader.Config{}), start(t, tb, leader.Config{})
		p.path.Suffer(pgfake.Always(pgfake.Trouble{Slow: time.Millisecond}))
		p.follow(t, hourly, schedule.Policy{}, d.work(0))
		until(time.Hour - 10*time.Millisecond)
		if _, err := operator.Dismiss(t.Context(), "job"); err != nil {
			t.Fatal(err)
		}
		if err := operator.Rerun(t.Context(), "job", midnight()); err != nil {
			t.Fatal(err)
		}
		until(time.Hour + time.Minute)
		if n := len(p.path.Asked(midnight(), pgfake.KindClaimSlot)); n > 10 {
			t.Errorf("%d claims within some seconds", n)
		}
		wantOutcomes(t, tb, "00:00 done 2", "01:00 done 1")
	})
}

// The first leader dies between two statements that record missed slots.
func TestMissedSlotsAreRecordedOldestFirst(t *testing.T) {
	for range 10 { // it must not be by luck
		synctest.Test(t, func(t *testing.T) {
			tb := pgfake.NewTable()
			d := &diary{table: tb}
			putSlot(tb, midnight(), schedule.StateDone, 1)
			until(5*time.Hour + 30*time.Minute)
			first := start(t, tb, leader.Config{})
			first.path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
				return pgfake.Trouble{Hangs: s.Kind == pgfake.KindMissSlots && s.Nth == 2}
			})
			policy := schedule.Policy{Grace: 2 * time.Hour}
			first.follow(t, hourly, policy, d.work(0))
			time.Sleep(time.Second)
			first.crash()
			time.Sleep(time.Minute)
			start(t, tb, leader.Config{}).follow(t, hourly, policy, d.work(0))
			time.Sleep(time.Minute)
			wantOutcomes(t, tb,
				"00:00 done 1", "01:00 missed 0", "02:00 missed 0", "03:00 missed 0", "04:00 missed 0", "05:00 done 1")
		})
	}
}

// Errors that are no passing ones by their kind, but were seen to pass: a pooler that has lost a
// prepared statement, a plan that a migration has made stale, a password that was changed.
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

// backwards is a schedule that goes backwards from some instant on.
type backwards struct{ from time.Time }

func (b backwards) Next(after time.Time) time.Time {
	if after.Before(b.from) {
		return hourly.Next(after)
	}
	return after.Add(-time.Hour)
}

func TestScheduleThatGoesBackwardsIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, pgfake.NewTable(), leader.Config{})
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		slots := backwards{midnight().Add(2 * time.Hour)}
		err := p.Scheduler.Run(ctx, "job", slots, schedule.Policy{}, func(context.Context, *schedule.Slot) error { return nil })
		if !errors.Is(err, schedule.ErrSchedule) {
			t.Errorf("RunSchedule = %v, want schedule.ErrSchedule", err)
		}
		within(t, midnight(), 3*time.Hour, "the error")
	})
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
		ran, err := p.RunSlot(t.Context(), "job", midnight(), func(context.Context, *schedule.Slot) error { return broken })
		if !ran || !errors.Is(err, broken) {
			t.Errorf("RunSlot = %v, %v; want the work's error", ran, err)
		}
		wantOutcomes(t, tb, "00:00 failed 1")
		if got, want := tb.Slots()[0].Error, "????: no paper"; got != want {
			t.Errorf("on record is %q, want %q", got, want)
		}
	})
}

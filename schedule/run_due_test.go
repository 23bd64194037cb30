package schedule_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/internal/pgfake"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

func TestFirstCallForAJobRunsTheSlotThatHasJustCome(t *testing.T) {
	for name, tt := range map[string]struct {
		late time.Duration // after the hour
		ran  int
	}{
		"a second late":       {time.Second, 1},
		"on time":             {0, 1},
		"within grace":        {10 * time.Minute, 1},
		"later than by grace": {10*time.Minute + time.Microsecond, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				hour := midnight().Add(time.Hour)
				until(time.Hour + tt.late)
				due, err := runDue(t, tb, schedule.Policy{Grace: 10 * time.Minute}, time.Second)
				if err != nil || due.Ran != tt.ran || len(tb.Slots()) != tt.ran {
					t.Fatalf("%+v, %v, on record %+v; want %d runs and no other record",
						due, err, tb.Slots(), tt.ran)
				}
				if tt.ran == 1 && (!due.Slot.Equal(hour) || !due.Next.Equal(hour.Add(time.Hour)) ||
					tb.Slots()[0].State != string(schedule.StateDone)) {
					t.Errorf("%+v, on record %+v", due, tb.Slots())
				}
			})
		})
	}
}

// runDue is one call of RunDue by a new process, whose work takes a while.
func runDue(
	t *testing.T, tb *pgfake.Table, policy schedule.Policy, takes time.Duration,
) (schedule.Due, error) {
	t.Helper()
	d := &diary{table: tb}
	return start(t, tb, leader.Config{}).RunDue(t.Context(), "job", hourly, policy, d.work(takes))
}

// A job's very first call dies between its election and the start of the slot.
func TestFirstSlotIsRunByTheNextCallWhenTheFirstOneDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		until(time.Hour + time.Second)
		dying := start(t, tb, leader.Config{})
		dying.path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
			first := s.Kind == pgfake.KindSurvey && s.Nth == 1
			return pgfake.Trouble{Hangs: s.Kind != pgfake.KindAcquire && !first}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		due, err := dying.RunDue(ctx, "job", hourly, schedule.Policy{}, returning(nil))
		if err == nil {
			t.Fatalf("%+v, want an error", due)
		}
		until(time.Hour + time.Minute)
		due, err = runDue(t, tb, schedule.Policy{}, time.Second)
		if err != nil || due.Ran != 1 {
			t.Errorf("%+v, %v; want 1 run", due, err)
		}
	})
}

func TestLaterCallsFindTheSlotDoneAndRecordWhatWasMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		until(time.Hour + time.Second)
		for i, want := range []int{1, 0, 0} {
			due, err := runDue(t, tb, schedule.Policy{}, time.Second)
			slot := due.Slot.Equal(midnight().Add(time.Hour))
			if err != nil || due.Ran != want || !slot || due.Leader.Job != "" {
				t.Errorf("call %d: %+v, %v; want %d runs", i, due, err, want)
			}
		}
		until(4*time.Hour + time.Second) // nobody calls for two hours
		due, err := runDue(t, tb, schedule.Policy{CatchUp: schedule.CatchUpSkip}, time.Second)
		if err != nil || due.Ran != 1 {
			t.Errorf("%+v, %v; want 1 run", due, err)
		}
		wantOutcomes(t, tb, "01:00 done 1", "02:00 missed 0", "03:00 missed 0", "04:00 done 1")
	})
}

func TestCallThatComesWhileAnotherRunsTheSlotSaysWhoAndReturnsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		until(time.Hour + time.Second)
		first := make(chan schedule.Due, 1)
		go func() {
			due, err := runDue(t, tb, schedule.Policy{}, 10*time.Minute)
			if err != nil {
				t.Error(err)
			}
			first <- due
		}()
		synctest.Wait()
		called := time.Now()
		due, err := runDue(t, tb, schedule.Policy{}, time.Second)
		slot := due.Slot.Equal(midnight().Add(time.Hour))
		if err != nil || due.Ran != 0 || due.Leader.Holder == "" || !slot {
			t.Errorf("%+v, %v; want the other's lease", due, err)
		}
		within(t, called, 0, "the answer")
		if due := <-first; due.Ran != 1 {
			t.Errorf("the first call: %+v", due)
		}
	})
}

// The leader looks for the last time just before the slot comes, and all others are turned away
// just after. Somebody must run the slot all the same.
func TestSlotThatComesWhileTheLeaderLeavesIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		term, ok, err := start(t, tb, leader.Config{}).TryAcquire(t.Context(), "job")
		if err != nil || !ok {
			t.Fatalf("TryAcquire = %v, %v; want a term", ok, err)
		}
		until(time.Hour + time.Millisecond)
		time.AfterFunc(time.Second, func() { mustResign(t, term) })
		due, err := runDue(t, tb, schedule.Policy{}, time.Second)
		if err != nil || due.Ran != 1 {
			t.Errorf("%+v, %v; want 1 run", due, err)
		}
	})
}

func TestLongRunGoesOnWithTheSlotThatCameMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until(time.Hour + time.Second)
		p := start(t, pgfake.NewTable(), leader.Config{})
		runs := 0
		work := func(ctx context.Context, _ *schedule.Slot) error {
			runs++
			if runs == 1 {
				return sleep(ctx, 90*time.Minute)
			}
			return errBroken
		}
		due, err := p.RunDue(t.Context(), "job", hourly, schedule.Policy{}, work)
		if due.Ran != 2 || runs != 2 || err == nil || err.Error() != errBroken.Error() {
			t.Errorf("%+v, %v, %d runs; want 2 and the last one's error", due, err, runs)
		}
	})
}

func TestLostTermRunsTheSlotAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		until(time.Hour + time.Second)
		p := start(t, tb, leader.Config{})
		var attempts []int
		work := func(ctx context.Context, s *schedule.Slot) error {
			attempts = append(attempts, s.Attempt())
			if len(attempts) == 1 {
				tb.Put("job", "thief", 10*time.Second)
				tb.Free("job")
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		due, err := p.RunDue(t.Context(), "job", hourly, schedule.Policy{}, work)
		if err != nil || due.Ran != 1 || !slices.Equal(attempts, []int{1, 2}) {
			t.Errorf("%+v, %v, attempts %v; want the second to be the run", due, err, attempts)
		}
	})
}

func TestCallWithoutADatabaseReturnsTheError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, pgfake.NewTable(), leader.Config{})
		p.path.Suffer(pgfake.Always(pgfake.Trouble{Fails: pgfake.ErrReset}))
		called := time.Now()
		_, err := p.RunDue(t.Context(), "job", hourly, schedule.Policy{}, returning(nil))
		if !errors.Is(err, pgfake.ErrReset) {
			t.Errorf("%v, want the driver's error", err)
		}
		within(t, called, 0, "the error")
	})
}

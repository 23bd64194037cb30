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

// turnUp is one call of RunDue, of a new process, with work that takes a while.
func turnUp(t *testing.T, tb *pgfake.Table, policy schedule.Policy, lasts time.Duration) (schedule.Due, error) {
	t.Helper()
	p := start(t, tb, leader.Config{})
	return p.RunDue(t.Context(), "report", hourly, policy, func(ctx context.Context, _ *schedule.Slot) error { return sleep(ctx, lasts) })
}

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
				hour := time.Now().UTC().Add(time.Hour).Truncate(time.Hour)
				time.Sleep(time.Until(hour.Add(tt.late)))
				due, err := turnUp(t, tb, schedule.Policy{Grace: 10 * time.Minute}, time.Second)
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

func TestLaterCallsFindTheSlotDoneAndRecordWhatWasMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		hour := time.Now().UTC().Add(time.Hour).Truncate(time.Hour)
		time.Sleep(time.Until(hour.Add(time.Second)))
		for i, want := range []int{1, 0, 0} {
			due, err := turnUp(t, tb, schedule.Policy{}, time.Second)
			if err != nil || due.Ran != want || !due.Slot.Equal(hour) || due.Leader.Job != "" {
				t.Errorf("call %d: %+v, %v; want %d runs", i, due, err, want)
			}
		}
		time.Sleep(time.Until(hour.Add(3*time.Hour + time.Second))) // nobody calls for two hours
		due, err := turnUp(t, tb, schedule.Policy{CatchUp: schedule.CatchUpSkip}, time.Second)
		if err != nil || due.Ran != 1 {
			t.Errorf("%+v, %v; want 1 run", due, err)
		}
		var states []string
		for _, row := range tb.Slots() {
			states = append(states, row.State)
		}
		if len(states) != 4 || states[1] != string(schedule.StateMissed) || states[2] != string(schedule.StateMissed) || states[3] != string(schedule.StateDone) {
			t.Errorf("states %q", states)
		}
	})
}

func TestCallThatComesWhileAnotherRunsTheSlotSaysWhoAndReturnsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		hour := time.Now().UTC().Add(time.Hour).Truncate(time.Hour)
		time.Sleep(time.Until(hour.Add(time.Second)))
		first := make(chan schedule.Due, 1)
		go func() {
			due, err := turnUp(t, tb, schedule.Policy{}, 10*time.Minute)
			if err != nil {
				t.Error(err)
			}
			first <- due
		}()
		synctest.Wait()
		called := time.Now()
		due, err := turnUp(t, tb, schedule.Policy{}, time.Second)
		if err != nil || due.Ran != 0 || due.Leader.Holder == "" || !due.Slot.Equal(hour) {
			t.Errorf("%+v, %v; want the other's lease", due, err)
		}
		within(t, called, 0, "the answer")
		if due := <-first; due.Ran != 1 {
			t.Errorf("the first call: %+v", due)
		}
	})
}

// The leader looks for the last time just before the slot comes, and all others are turned away
// just after: somebody must run the slot.
func TestSlotThatComesWhileTheLeaderLeavesIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		hour := time.Now().UTC().Add(time.Hour).Truncate(time.Hour)
		leaving := start(t, tb, leader.Config{})
		term := leaving.mustLead(t, "report")
		time.Sleep(time.Until(hour.Add(time.Millisecond)))
		time.AfterFunc(time.Second, func() { mustResign(t, term) })
		due, err := turnUp(t, tb, schedule.Policy{}, time.Second)
		if err != nil || due.Ran != 1 {
			t.Errorf("%+v, %v; want 1 run", due, err)
		}
	})
}

func TestLongRunGoesOnWithTheSlotThatCameMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		hour := time.Now().UTC().Add(time.Hour).Truncate(time.Hour)
		time.Sleep(time.Until(hour.Add(time.Second)))
		p := start(t, tb, leader.Config{})
		runs := 0
		due, err := p.RunDue(t.Context(), "report", hourly, schedule.Policy{}, func(ctx context.Context, _ *schedule.Slot) error {
			runs++
			if runs == 1 {
				return sleep(ctx, 90*time.Minute)
			}
			return errors.New("no paper")
		})
		if due.Ran != 2 || runs != 2 || err == nil || err.Error() != "no paper" {
			t.Errorf("%+v, %v, %d runs; want 2 and the last one's error", due, err, runs)
		}
	})
}

func TestLostTermRunsTheSlotAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		hour := time.Now().UTC().Add(time.Hour).Truncate(time.Hour)
		time.Sleep(time.Until(hour.Add(time.Second)))
		p := start(t, tb, leader.Config{})
		var attempts []int
		due, err := p.RunDue(t.Context(), "report", hourly, schedule.Policy{}, func(ctx context.Context, s *schedule.Slot) error {
			attempts = append(attempts, s.Attempt())
			if len(attempts) == 1 {
				tb.Put("report", "thief", 10*time.Second)
				tb.Free("report")
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		})
		if err != nil || due.Ran != 1 || len(attempts) != 2 || attempts[1] != 2 {
			t.Errorf("%+v, %v, attempts %v; want the second to be the run", due, err, attempts)
		}
	})
}

func TestCallWithoutADatabaseReturnsTheError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, pgfake.NewTable(), leader.Config{})
		p.path.Suffer(pgfake.Always(pgfake.Trouble{Fails: pgfake.ErrReset}))
		called := time.Now()
		_, err := p.RunDue(t.Context(), "report", hourly, schedule.Policy{}, func(context.Context, *schedule.Slot) error { return nil })
		if !errors.Is(err, pgfake.ErrReset) {
			t.Errorf("%v, want the driver's error", err)
		}
		within(t, called, 0, "the error")
	})
}

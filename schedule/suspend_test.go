package schedule_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/internal/pgfake"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

// The monotonic clock stands still while the machine is suspended, and with it every timer. One
// that was set for 02:00 would go off as much too late as the machine was away.
func TestSlotThatComesDueWhileTheMachineIsSuspendedIsRunWithinAMinuteOfWaking(t *testing.T) {
	const slot, day, ttl = 2 * time.Hour, 24 * time.Hour, 15 * time.Second
	const early, justBefore = 13 * time.Minute, slot - 9*time.Minute
	follow := func(t *testing.T, p *process, d *diary) {
		p.follow(t, daily(slot), schedule.Policy{Grace: 12 * time.Hour}, d.work(0))
	}
	once := func(t *testing.T, p *process, d *diary) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := p.RunSlot(ctx, "job", midnight().Add(slot), d.work(0))
			ended <- err
		}()
		t.Cleanup(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
	for _, tt := range []struct {
		name    string
		begin   func(*testing.T, *process, *diary)
		ttl     time.Duration
		asleep  time.Duration // from then on, by the clock on the wall
		lasts   time.Duration
		another time.Duration // what is left of the lease of an instance that was elected meanwhile
	}{
		{"leader that keeps its lease", follow, day, early, 3 * time.Hour, 0},
		{"leader that lost its lease", follow, ttl, early, 3 * time.Hour, 0},
		{"leader whose lease was taken", follow, ttl, early, 3 * time.Hour, 20 * time.Second},
		{"leader, woken before the slot", follow, day, early, 105 * time.Minute, 0},
		{"leader, asleep shortly before the slot", follow, day, justBefore, time.Hour, 0},
		{"one slot", once, ttl, early, 3 * time.Hour, 0},
		{"one slot, asleep shortly before it", once, ttl, justBefore, time.Hour, 0},
		{"one slot, woken before it", once, ttl, early, 105 * time.Minute, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				d := &diary{table: tb}
				p := start(t, tb, leader.Config{TTL: tt.ttl})
				wall := p.setWall(t)
				tt.begin(t, p, d)
				until(tt.asleep)
				tb.Step(tt.lasts)
				wall.Add(int64(tt.lasts))
				if tt.another > 0 {
					tb.Put("job", "another", tt.another)
				}
				due := tb.Clock()
				if at := midnight().Add(slot); at.After(due) {
					due = at
				}
				time.Sleep(due.Sub(tb.Clock()) + time.Minute)
				runs := d.all()
				if len(runs) != 1 {
					t.Fatalf("%d runs within a minute, want 1", len(runs))
				}
				if late := runs[0].began.Sub(due); late < 0 || late > time.Minute {
					t.Errorf("the slot is run %v after it was due and the machine awake, "+
						"want within a minute", late)
				}
			})
		})
	}
}

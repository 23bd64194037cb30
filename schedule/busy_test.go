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
			deaf := func(ctx context.Context, _ *leader.Term) error {
				tb.Put("job", "thief", 0)
				time.Sleep(30 * time.Second)
				cancel()
				return ctx.Err()
			}
			go func() { _ = p.Elector.Run(ctx, "job", deaf) }() // whatever it returns
			time.Sleep(10 * time.Second)                        // the next renewal finds out
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
		term, ok, err := start(t, tb, leader.Config{}).TryAcquire(t.Context(), "job")
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		time.AfterFunc(10*time.Minute, func() { mustResign(t, term) })
		p := start(t, tb, leader.Config{})
		ran, err := p.RunSlot(t.Context(), "job", midnight(), (&diary{table: tb}).work(0))
		if !ran || err != nil {
			t.Errorf("RunSlot = %v, %v; want a run", ran, err)
		}
		within(t, midnight().Add(10*time.Minute), 2*time.Second, "the slot was run")
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

package leader

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/internal/pgcall"
	"github.com/pgleader/pgleader/internal/pgfake"
)

const defaultTTL = 15 * time.Second

// foundWithin bounds how long a candidate needs to see that a lease stands still: a look, the TTL,
// and another look.
func foundWithin(e *Elector) time.Duration { return e.ttl + 2*(e.retryEvery*5/4) }

func TestLeaseOfNobodyIsFreeAfterTheTTLThoughTheClockWasSetBack(t *testing.T) {
	for name, gone := range map[string]func(*pgfake.Table){
		"dead":     func(*pgfake.Table) {},
		"resigned": func(tb *pgfake.Table) { tb.Free("report") },
		"expired":  func(*pgfake.Table) { time.Sleep(time.Minute) },
	} {
		// Where it goes back by little more than the TTL, the clock has caught up with the renewal when
		// the candidate knows.
		for _, back := range []time.Duration{
			time.Second, 5 * time.Second, 14 * time.Second, 16 * time.Second, 17 * time.Second,
			20 * time.Second, time.Hour,
		} {
			t.Run(fmt.Sprint(name, " ", back), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					tb := pgfake.NewTable()
					tb.Put("report", "rival", defaultTTL)
					gone(tb)
					tb.Step(-back)
					p := start(t, tb, Config{})
					began := time.Now()
					term, err := p.Campaign(t.Context(), "report")
					if err != nil {
						t.Fatal(err)
					}
					within(t, began, foundWithin(p.Elector), "the election")
					if term.Token() != 2 {
						t.Errorf("token %d, want 2", term.Token())
					}
					events := p.reported(EventClockSetBack)
					if back == time.Hour && (len(events) != 1 || events[0].Holder != "rival" ||
						events[0].Token != 1 || events[0].Err == nil) {
						t.Errorf("reported %+v, want once that the rival's lease was freed", events)
					}
					mustResign(t, term)
				})
			})
		}
	}
}

// What a process has seen it remembers from call to call.
func TestCallersThatAskForAMomentFreeALeaseOfNobodyToo(t *testing.T) {
	for name, ask := range map[string]func(*testing.T, *process) *Term{
		"TryAcquire on a tick": func(t *testing.T, p *process) *Term {
			time.Sleep(time.Second)
			term, _, err := p.TryAcquire(t.Context(), "report")
			if err != nil {
				t.Error(err)
			}
			return term
		},
		"short campaigns": func(t *testing.T, p *process) *Term {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			term, err := p.Campaign(ctx, "report")
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			return term
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				tb.Put("report", "rival", defaultTTL)
				tb.Step(-time.Hour)
				p := start(t, tb, Config{})
				began := time.Now()
				for time.Since(began) < 2*defaultTTL {
					if term := ask(t, p); term != nil {
						within(t, began, foundWithin(p.Elector), "the election")
						mustResign(t, term)
						return
					}
				}
				t.Error("never elected")
			})
		})
	}
}

func TestLeaseThatCannotBeFreedIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		tb.Put("report", "rival", defaultTTL)
		tb.Step(-time.Hour)
		p := start(t, tb, Config{})
		p.path.Suffer(pgfake.Only(pgfake.KindFree, pgfake.Trouble{Fails: pgfake.ServerError("57014")}))
		stop := p.wait(t, "report")
		time.Sleep(foundWithin(p.Elector) + time.Minute)
		events := p.reported(EventClaimFailed)
		if len(events) != 1 || pgcall.SQLState(events[0].Err) != "57014" {
			t.Errorf("reported %+v, want one failed claim", events)
		}
		unlock := tb.Lock("report") // as a psql session does: no reason to wait
		p.path.Suffer(nil)
		time.Sleep(time.Minute)
		unlock()
		time.Sleep(foundWithin(p.Elector))
		if n := len(p.reported(EventElected)); n != 1 {
			t.Errorf("%d elections when the row is free, want 1", n)
		}
		stop()
	})
}

// It would look in an hour, when the lease seems to end.
func TestPatientCandidateLooksAgainAfterTheTTLIfTheClockWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		tb.Put("report", "rival", defaultTTL)
		tb.Step(-time.Hour)
		p := start(t, tb, Config{RetryEvery: time.Hour})
		began := time.Now()
		term, err := p.Campaign(t.Context(), "report")
		if err != nil {
			t.Fatal(err)
		}
		within(t, began, defaultTTL+2*maxSpread, "the election")
		mustResign(t, term)
	})
}

func TestLeaderThatLivesOutlastsEverySettingBackOfTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		leads, waits := start(t, tb, Config{}), start(t, tb, Config{})
		term := leads.mustLead(t, "report")
		defer waits.wait(t, "report")()
		// Some renewal lies in the future then, or always the last one.
		for _, every := range []time.Duration{time.Minute, time.Second} {
			for range 100 {
				tb.Step(-time.Hour)
				time.Sleep(every)
			}
		}
		if term.Context().Err() != nil || len(waits.reported(EventClockSetBack)) != 0 {
			t.Errorf("the term ended, %v, or its lease was freed: %+v",
				term.Context().Err(), waits.reported(EventClockSetBack))
		}
		mustResign(t, term)
	})
}

// A leader that is cut off at some moment around the step believes in its lease for a while. It is
// given that while.
func TestLeaseIsNotFreedWhileItsHolderMayBelieveInIt(t *testing.T) {
	for cut := time.Duration(0); cut < 2*defaultTTL; cut += 700 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			tb := pgfake.NewTable()
			leads, waits := start(t, tb, Config{TTL: 2 * defaultTTL}), start(t, tb, Config{})
			term := leads.mustLead(t, "report")
			tb.OnTakeover(func(_, holder string) {
				if holder == waits.Holder() && term.Context().Err() == nil {
					t.Errorf("cut off %v before the step: %s takes over while the leader believes in its term",
						cut, holder)
				}
			})
			stop := waits.wait(t, "report")
			time.Sleep(time.Minute)
			leads.path.Suffer(pgfake.Always(pgfake.Trouble{Hangs: true}))
			time.Sleep(cut)
			tb.Step(-time.Hour)
			time.Sleep(2*defaultTTL + foundWithin(waits.Elector))
			if row := tb.Row("report"); row.Token != 2 {
				t.Errorf("cut off %v before the step: token %d, want a second term", cut, row.Token)
			}
			stop()
			leads.path.Unhang()
			_ = term.Resign()
		})
	}
}

// Between the last look and the call the leader may come back.
func TestRenewalSavesALeaseThatWasAboutToBeFreed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		tb.Put("report", "rival", defaultTTL)
		tb.Step(-time.Hour)
		p := start(t, tb, Config{})
		p.path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
			if s.Kind == pgfake.KindFree {
				tb.Put("report", "rival", defaultTTL) // whom the clock finds alive
			}
			return pgfake.Trouble{}
		})
		stop := p.wait(t, "report")
		time.Sleep(foundWithin(p.Elector))
		if n := len(p.path.Asked(time.Time{}, pgfake.KindFree)); n != 1 {
			t.Fatalf("asked %d times to free it, want once", n)
		}
		if row := tb.Row("report"); row.Token != 2 || row.Holder != "rival" {
			t.Errorf("%s leads under token %d, want the rival under 2", row.Holder, row.Token)
		}
		if events := p.reported(EventClockSetBack); len(events) != 0 {
			t.Errorf("reported %+v", events)
		}
		stop()
	})
}

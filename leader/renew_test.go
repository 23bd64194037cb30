package leader

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/internal/pgfake"
)

func TestAllTermsAreRenewedByOneStatement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, pgfake.NewTable(), Config{})
		began := time.Now()
		var terms []*Term
		for i := range 100 {
			terms = append(terms, p.mustLead(t, fmt.Sprintf(`"job" <%d> \ 日本`, i)))
		}
		time.Sleep(time.Minute + time.Second)
		renewals := p.path.Asked(began, pgfake.KindRenewOne, pgfake.KindRenewMany)
		if want := int(time.Minute / p.renewEvery); len(renewals) != want {
			t.Errorf("%d renewals in a minute, want %d", len(renewals), want)
		}
		for i, s := range renewals {
			if len(s.Jobs) != len(terms) {
				t.Errorf("renewal %d was for %d terms of %d", i, len(s.Jobs), len(terms))
			}
		}
		for _, term := range terms {
			if term.Context().Err() != nil {
				t.Errorf("%q is over: %v", term.Job(), context.Cause(term.Context()))
			}
		}
		mustResign(t, terms...)
	})
}

// The interval is kept from one sending to the next, not from an answer to the next sending.
func TestSlowRenewalsKeepTheirInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, pgfake.NewTable(), Config{})
		began := time.Now()
		term := p.mustLead(t, "report")
		p.path.Suffer(pgfake.Only(pgfake.KindRenewOne, pgfake.Trouble{Slow: 3 * time.Second}))
		time.Sleep(time.Minute + 4*time.Second)
		n, want := len(p.path.Asked(began, pgfake.KindRenewOne)), int(time.Minute/p.renewEvery)
		if n != want {
			t.Errorf("%d renewals in a minute, want %d", n, want)
		}
		p.path.Suffer(nil)
		mustResign(t, term)
	})
}

func TestOutageShorterThanTheTrustWindowKeepsTheLead(t *testing.T) {
	for name, outage := range map[string]pgfake.Trouble{
		"errors":               {Fails: pgfake.ErrReset},
		"errors after renewal": {Loses: pgfake.ErrReset},
		"server errors":        {Fails: pgfake.ServerError("57014")},
		"read-only server":     {Fails: pgfake.ServerError("25006")},
		"hangs":                {Hangs: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				p := start(t, tb, Config{})
				term := p.mustLead(t, "report")
				for range 5 {
					time.Sleep(4 * time.Second)
					p.path.Suffer(pgfake.Always(outage))
					time.Sleep(2 * time.Second)
					p.path.Suffer(nil)
					time.Sleep(10 * time.Second)
				}
				if term.Context().Err() != nil {
					t.Fatalf("an outage of 2 s cost the term: %v", context.Cause(term.Context()))
				}
				if again := p.mustLead(t, "report"); again != term {
					t.Error("it is another term")
				}
				if len(p.reported(EventRenewFailed)) == 0 {
					t.Error("no failed renewal was reported")
				}
				mustResign(t, term)
			})
		})
	}
}

func TestFailedRenewalIsTriedAgainUntilTheTrustWindowEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, Config{})
		p.path.Suffer(pgfake.Only(pgfake.KindRenewOne, pgfake.Trouble{Fails: pgfake.ErrReset}))
		began := time.Now()
		term := p.mustLead(t, "report")
		<-term.Context().Done()
		after(t, began, p.ttl-p.margin, "the term ended")
		if !tb.Live("report") {
			t.Error("the lease ended before the term")
		}
		synctest.Wait()

		attempts := p.path.Asked(began, pgfake.KindRenewOne)
		window := p.ttl - p.margin - p.renewEvery
		fewest, most := int(window/(p.retryPause*3/2)), int(window/(p.retryPause/2))+1
		if n := len(attempts); n < fewest || n > most {
			t.Errorf("%d attempts in %v, want %d to %d", n, window, fewest, most)
		}
		if last := attempts[len(attempts)-1].At; time.Since(last) > p.retryPause*3/2 {
			t.Errorf("the last attempt was %v before the end", time.Since(last))
		}
		failed := p.reported(EventRenewFailed)
		if len(failed) != len(attempts) || !errors.Is(failed[0].Err, pgfake.ErrReset) {
			t.Errorf("%d failures reported for %d attempts", len(failed), len(attempts))
		}
		time.Sleep(time.Minute)
		if n := len(p.path.Asked(began)); n != len(attempts)+1 {
			t.Errorf("%d statements after the end of the term", n-len(attempts)-1)
		}
	})
}

func TestRenewalWithoutRowEndsOnlyItsTerm(t *testing.T) {
	for name, interfere := range map[string]func(*pgfake.Table){
		"taken over": func(tb *pgfake.Table) { tb.Put("b", "rival", time.Hour) },
		"expired":    func(tb *pgfake.Table) { tb.Free("b") },
		"deleted":    func(tb *pgfake.Table) { tb.Delete("b") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				p := start(t, tb, Config{})
				began := time.Now()
				a, b, c := p.mustLead(t, "a"), p.mustLead(t, "b"), p.mustLead(t, "c")
				time.Sleep(time.Second)
				interfere(tb)
				<-b.Context().Done()
				after(t, began, p.renewEvery, "the term ended")
				if cause := context.Cause(b.Context()); !errors.Is(cause, ErrLost) {
					t.Errorf("the cause is %v, want ErrLost", cause)
				}
				time.Sleep(time.Minute)
				if a.Context().Err() != nil || c.Context().Err() != nil {
					t.Errorf("the other terms: %v, %v", context.Cause(a.Context()), context.Cause(c.Context()))
				}
				lost := p.reported(EventLost)
				if len(lost) != 1 || lost[0].Job != "b" || lost[0].Token != b.Token() ||
					!errors.Is(lost[0].Err, ErrLost) {
					t.Errorf("reported as lost: %+v", lost)
				}
				mustResign(t, a, c)
			})
		})
	}
}

// Config.OnEvent must not block, but if it does no term outlives its trust for that.
func TestSlowReportOfALossHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, pgfake.NewTable(), Config{})
		record := p.onEvent
		p.onEvent = func(event Event) {
			record(event)
			if event.Kind == EventLost {
				time.Sleep(time.Minute)
			}
		}
		p.path.Suffer(pgfake.Only(pgfake.KindRenewOne, pgfake.Trouble{Fails: pgfake.ErrReset}))
		began := time.Now()
		terms := []*Term{p.mustLead(t, "a"), p.mustLead(t, "b"), p.mustLead(t, "c")}
		for _, term := range terms {
			<-term.Context().Done()
			after(t, began, p.ttl-p.margin, "the term ended")
		}
		time.Sleep(time.Hour)
	})
}

func TestRenewalOfASingleTermWithoutRowEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, Config{})
		began := time.Now()
		term := p.mustLead(t, "report")
		tb.Put("report", "rival", time.Hour)
		<-term.Context().Done()
		after(t, began, p.renewEvery, "the term ended")
		if !errors.Is(context.Cause(term.Context()), ErrLost) {
			t.Errorf("the cause is %v, want ErrLost", context.Cause(term.Context()))
		}
		if row := tb.Row("report"); row.Holder != "rival" {
			t.Errorf("the lease was taken back by a renewal: %+v", row)
		}
	})
}

func TestLockedRowCostsAtMostItsOwnTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, Config{})
		began := time.Now()
		a, b, c := p.mustLead(t, "a"), p.mustLead(t, "b"), p.mustLead(t, "c")
		unlock := tb.Lock("b")
		<-b.Context().Done()
		after(t, began, p.ttl-p.margin, "the term with the locked row ended")
		time.Sleep(time.Minute)
		if a.Context().Err() != nil || c.Context().Err() != nil {
			t.Errorf("the other terms: %v, %v", context.Cause(a.Context()), context.Cause(c.Context()))
		}
		unlock()
		mustResign(t, a, c)
	})
}

func TestLockedRowIsAskedForAgainInTime(t *testing.T) {
	for _, jobs := range [][]string{{"b"}, {"a", "b", "c"}} {
		t.Run(fmt.Sprint(len(jobs), " terms"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				p := start(t, tb, Config{})
				var terms []*Term
				for _, job := range jobs {
					terms = append(terms, p.mustLead(t, job))
				}
				unlock := tb.Lock("b")
				time.Sleep(p.ttl - p.margin - time.Second)
				unlock()
				time.Sleep(time.Minute)
				for _, term := range terms {
					if term.Context().Err() != nil {
						t.Errorf("%q is over: %v", term.Job(), context.Cause(term.Context()))
					}
				}
				mustResign(t, terms...)
			})
		})
	}
}

// lib/pq returns from a query only when the server or the network says so (lib/pq#620).
func TestHangingRenewalIsTriedAgainOnAnotherConnection(t *testing.T) {
	for name, hang := range map[string]pgfake.Trouble{
		"before the server": {Hangs: true},
		"after the server":  {Swallows: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t, pgfake.NewTable(), Config{})
				began := time.Now()
				term := p.mustLead(t, "report")
				p.path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
					if s.Renews() && s.Nth == 1 {
						return hang
					}
					return pgfake.Trouble{}
				})
				time.Sleep(time.Minute)
				if term.Context().Err() != nil {
					t.Fatalf("the term is over: %v", context.Cause(term.Context()))
				}
				again := p.path.Asked(began, pgfake.KindRenewOne)[1].At.Sub(began)
				if limit := p.renewEvery + p.callLimit + p.retryPause*3/2; again > limit {
					t.Errorf("the second attempt came after %v, want within %v", again, limit)
				}
				if kept := p.path.Kept(); kept != 1 {
					t.Errorf("the driver keeps %d calls, want the one that hangs", kept)
				}
				mustResign(t, term)
			})
		})
	}
}

func TestTermEndsInTimeWhateverTheDriverDoes(t *testing.T) {
	for name, state := range map[string]struct {
		trouble pgfake.Trouble
		starved bool
	}{
		"calls hang":                    {trouble: pgfake.Trouble{Hangs: true}},
		"answers are swallowed":         {trouble: pgfake.Trouble{Swallows: true}},
		"answers come late":             {trouble: pgfake.Trouble{Slow: time.Minute}},
		"answers come late to the deaf": {trouble: pgfake.Trouble{Slow: time.Minute, Deaf: true}},
		"statements arrive late":        {trouble: pgfake.Trouble{Late: 10 * time.Second, Deaf: true}},
		"no connection comes free":      {starved: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				p := start(t, tb, Config{})
				began := time.Now()
				terms := []*Term{p.mustLead(t, "a"), p.mustLead(t, "b")}
				p.path.Suffer(pgfake.Always(state.trouble))
				if state.starved {
					p.path.Starve()
				}
				for _, term := range terms {
					<-term.Context().Done()
					after(t, began, p.ttl-p.margin, "the term ended")
					if !tb.Live(term.Job()) {
						t.Error("the lease ended before the term")
					}
				}
				time.Sleep(2 * time.Minute)
			})
		})
	}
}

func TestAnswerAfterTheEndOfTrustIsWorthNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, Config{RenewEvery: 8500 * time.Millisecond})
		began := time.Now()
		term := p.mustLead(t, "report")
		late := pgfake.Trouble{Slow: p.callLimit + time.Second, Deaf: true}
		p.path.Suffer(pgfake.Only(pgfake.KindRenewOne, late))
		<-term.Context().Done()
		after(t, began, p.ttl-p.margin, "the term ended")
		time.Sleep(time.Minute)
		if term.Context().Err() == nil || len(p.reported(EventLost)) != 1 {
			t.Error("a late answer brought the term back")
		}
	})
}

func TestDeadPooledConnectionsCostNoRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, pgfake.NewTable(), Config{})
		term := p.mustLead(t, "report")
		p.path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
			if s.Nth <= 2 {
				return pgfake.Trouble{Fails: driver.ErrBadConn}
			}
			return pgfake.Trouble{}
		})
		time.Sleep(p.renewEvery)
		synctest.Wait()
		if failed := p.reported(EventRenewFailed); len(failed) > 0 {
			t.Errorf("reported: %v", failed[0].Err)
		}
		if n := len(p.path.Asked(time.Time{}, pgfake.KindRenewOne)); n != 3 {
			t.Errorf("asked %d times, want 3", n)
		}
		mustResign(t, term)
	})
}

func TestTermElectedDuringARenewalIsRenewedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, pgfake.NewTable(), Config{})
		a := p.mustLead(t, "a")
		p.path.Suffer(pgfake.Only(pgfake.KindRenewOne, pgfake.Trouble{Hangs: true}))
		time.Sleep(p.renewEvery + time.Second)
		p.path.Suffer(nil)
		b := p.mustLead(t, "b")
		time.Sleep(time.Minute)
		if a.Context().Err() != nil || b.Context().Err() != nil {
			t.Errorf("the terms: %v, %v", context.Cause(a.Context()), context.Cause(b.Context()))
		}
		mustResign(t, a, b)
	})
}

func TestNothingRunsWhileNothingIsHeldOrWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, Config{})
		running := func() []bool {
			synctest.Wait()
			for _, part := range []sync.Locker{&p.renewal.mu, &p.lookout.mu, &p.watchdog.mu} {
				part.Lock()
				defer part.Unlock()
			}
			return []bool{p.renewal.running, p.lookout.running, p.watchdog.armed}
		}
		for range 3 {
			term := p.mustLead(t, "report")
			ctx, cancel := context.WithCancel(t.Context())
			tb.Put("other", "rival", time.Hour)
			go func() { _, _ = p.Campaign(ctx, "other") }()
			time.Sleep(time.Minute)
			if got := running(); !slices.Equal(got, []bool{true, true, true}) {
				t.Errorf("renewing, looking, watching = %v while it leads and waits", got)
			}
			mustResign(t, term)
			cancel()
			time.Sleep(p.wallCheck)
			if got := running(); !slices.Equal(got, []bool{false, false, false}) {
				t.Errorf("renewing, looking, watching = %v while nothing is held or waited for", got)
			}
			asked := len(p.path.Asked(time.Time{}))
			time.Sleep(time.Hour)
			if n := len(p.path.Asked(time.Time{})) - asked; n > 0 {
				t.Errorf("%d statements in an idle hour", n)
			}
		}
	})
}

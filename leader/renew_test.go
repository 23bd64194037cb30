package leader

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestAllTermsAreRenewedByOneStatement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, newTable(), Config{})
		began := time.Now()
		var terms []*Term
		for i := range 100 {
			terms = append(terms, p.mustLead(t, fmt.Sprintf(`"job" <%d> \ 日本`, i)))
		}
		time.Sleep(time.Minute + time.Second)
		renewals := p.path.asked(began, renewOne, renewMany)
		if want := int(time.Minute / p.renewEvery); len(renewals) != want {
			t.Errorf("%d renewals in a minute, want %d", len(renewals), want)
		}
		for i, s := range renewals {
			if len(s.jobs) != len(terms) {
				t.Errorf("renewal %d was for %d terms of %d", i, len(s.jobs), len(terms))
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
		p := start(t, newTable(), Config{})
		began := time.Now()
		term := p.mustLead(t, "report")
		p.path.suffer(only(renewOne, trouble{slow: 3 * time.Second}))
		time.Sleep(time.Minute + 4*time.Second)
		if n, want := len(p.path.asked(began, renewOne)), int(time.Minute/p.renewEvery); n != want {
			t.Errorf("%d renewals in a minute, want %d", n, want)
		}
		p.path.suffer(nil)
		mustResign(t, term)
	})
}

func TestOutageShorterThanTheTrustWindowKeepsTheLead(t *testing.T) {
	for name, outage := range map[string]trouble{
		"errors":               {fails: errReset},
		"errors after renewal": {loses: errReset},
		"server errors":        {fails: serverError("57014")},
		"read-only server":     {fails: serverError("25006")},
		"hangs":                {hangs: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := newTable()
				p := start(t, tb, Config{})
				term := p.mustLead(t, "report")
				for range 5 {
					time.Sleep(4 * time.Second)
					p.path.suffer(always(outage))
					time.Sleep(2 * time.Second)
					p.path.suffer(nil)
					time.Sleep(10 * time.Second)
				}
				if term.Context().Err() != nil {
					t.Fatalf("an outage of 2 s cost the term: %v", context.Cause(term.Context()))
				}
				if again := p.mustLead(t, "report"); again != term {
					t.Error("it is another term")
				}
				if len(p.reported(RenewFailed)) == 0 {
					t.Error("no failed renewal was reported")
				}
				mustResign(t, term)
			})
		})
	}
}

func TestFailedRenewalIsTriedAgainUntilTheTrustWindowEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable()
		p := start(t, tb, Config{})
		p.path.suffer(only(renewOne, trouble{fails: errReset}))
		began := time.Now()
		term := p.mustLead(t, "report")
		<-term.Context().Done()
		after(t, began, p.ttl-p.margin, "the term ended")
		if !tb.live("report") {
			t.Error("the lease ended before the term")
		}
		synctest.Wait()

		attempts := p.path.asked(began, renewOne)
		window := p.ttl - p.margin - p.renewEvery
		fewest, most := int(window/(p.retryPause*3/2)), int(window/(p.retryPause/2))+1
		if n := len(attempts); n < fewest || n > most {
			t.Errorf("%d attempts in %v, want %d to %d", n, window, fewest, most)
		}
		if last := attempts[len(attempts)-1].at; time.Since(last) > p.retryPause*3/2 {
			t.Errorf("the last attempt was %v before the end", time.Since(last))
		}
		if failed := p.reported(RenewFailed); len(failed) != len(attempts) || !errors.Is(failed[0].Err, errReset) {
			t.Errorf("%d failures reported for %d attempts", len(failed), len(attempts))
		}
		time.Sleep(time.Minute)
		if n := len(p.path.asked(began)); n != len(attempts)+1 {
			t.Errorf("%d statements after the end of the term", n-len(attempts)-1)
		}
	})
}

func TestRenewalWithoutRowEndsOnlyItsTerm(t *testing.T) {
	for name, interfere := range map[string]func(*table){
		"taken over": func(tb *table) { tb.put("b", "rival", time.Hour) },
		"expired":    func(tb *table) { tb.free("b") },
		"deleted":    func(tb *table) { tb.mu.Lock(); delete(tb.rows, "b"); tb.mu.Unlock() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := newTable()
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
				if lost := p.reported(Lost); len(lost) != 1 || lost[0].Job != "b" || lost[0].Token != b.Token() || !errors.Is(lost[0].Err, ErrLost) {
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
		p := start(t, newTable(), Config{})
		record := p.onEvent
		p.onEvent = func(event Event) {
			record(event)
			if event.Kind == Lost {
				time.Sleep(time.Minute)
			}
		}
		p.path.suffer(only(renewOne, trouble{fails: errReset}))
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
		tb := newTable()
		p := start(t, tb, Config{})
		began := time.Now()
		term := p.mustLead(t, "report")
		tb.put("report", "rival", time.Hour)
		<-term.Context().Done()
		after(t, began, p.renewEvery, "the term ended")
		if !errors.Is(context.Cause(term.Context()), ErrLost) {
			t.Errorf("the cause is %v, want ErrLost", context.Cause(term.Context()))
		}
		if row := tb.row("report"); row.Holder != "rival" {
			t.Errorf("the lease was taken back by a renewal: %+v", row)
		}
	})
}

func TestLockedRowCostsAtMostItsOwnTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable()
		p := start(t, tb, Config{})
		began := time.Now()
		a, b, c := p.mustLead(t, "a"), p.mustLead(t, "b"), p.mustLead(t, "c")
		unlock := tb.lock("b")
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
				tb := newTable()
				p := start(t, tb, Config{})
				var terms []*Term
				for _, job := range jobs {
					terms = append(terms, p.mustLead(t, job))
				}
				unlock := tb.lock("b")
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
	for name, hang := range map[string]trouble{"before the server": {hangs: true}, "after the server": {swallows: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t, newTable(), Config{})
				began := time.Now()
				term := p.mustLead(t, "report")
				p.path.suffer(func(s statement) trouble {
					if s.renews() && s.nth == 1 {
						return hang
					}
					return trouble{}
				})
				time.Sleep(time.Minute)
				if term.Context().Err() != nil {
					t.Fatalf("the term is over: %v", context.Cause(term.Context()))
				}
				again := p.path.asked(began, renewOne)[1].at.Sub(began)
				if limit := p.renewEvery + p.callLimit + p.retryPause*3/2; again > limit {
					t.Errorf("the second attempt came after %v, want within %v", again, limit)
				}
				if kept := p.path.kept(); kept != 1 {
					t.Errorf("the driver keeps %d calls, want the one that hangs", kept)
				}
				mustResign(t, term)
			})
		})
	}
}

func TestTermEndsInTimeWhateverTheDriverDoes(t *testing.T) {
	for name, state := range map[string]struct {
		trouble trouble
		starved bool
	}{
		"calls hang":                    {trouble: trouble{hangs: true}},
		"answers are swallowed":         {trouble: trouble{swallows: true}},
		"answers come late":             {trouble: trouble{slow: time.Minute}},
		"answers come late to the deaf": {trouble: trouble{slow: time.Minute, deaf: true}},
		"statements arrive late":        {trouble: trouble{late: 10 * time.Second, deaf: true}},
		"no connection comes free":      {starved: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := newTable()
				p := start(t, tb, Config{})
				began := time.Now()
				terms := []*Term{p.mustLead(t, "a"), p.mustLead(t, "b")}
				p.path.suffer(always(state.trouble))
				p.path.mu.Lock()
				p.path.starved = state.starved
				p.path.mu.Unlock()
				for _, term := range terms {
					<-term.Context().Done()
					after(t, began, p.ttl-p.margin, "the term ended")
					if !tb.live(term.Job()) {
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
		tb := newTable()
		p := start(t, tb, Config{RenewEvery: 8500 * time.Millisecond})
		began := time.Now()
		term := p.mustLead(t, "report")
		p.path.suffer(only(renewOne, trouble{slow: p.callLimit + time.Second, deaf: true}))
		<-term.Context().Done()
		after(t, began, p.ttl-p.margin, "the term ended")
		time.Sleep(time.Minute)
		if term.Context().Err() == nil || len(p.reported(Lost)) != 1 {
			t.Error("a late answer brought the term back")
		}
	})
}

func TestDeadPooledConnectionsCostNoRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, newTable(), Config{})
		term := p.mustLead(t, "report")
		p.path.suffer(func(s statement) trouble {
			if s.nth <= 2 {
				return trouble{fails: driver.ErrBadConn}
			}
			return trouble{}
		})
		time.Sleep(p.renewEvery)
		synctest.Wait()
		if failed := p.reported(RenewFailed); len(failed) > 0 {
			t.Errorf("reported: %v", failed[0].Err)
		}
		if n := len(p.path.asked(time.Time{}, renewOne)); n != 3 {
			t.Errorf("asked %d times, want 3", n)
		}
		mustResign(t, term)
	})
}

func TestTermElectedDuringARenewalIsRenewedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, newTable(), Config{})
		a := p.mustLead(t, "a")
		p.path.suffer(only(renewOne, trouble{hangs: true}))
		time.Sleep(p.renewEvery + time.Second)
		p.path.suffer(nil)
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
		tb := newTable()
		p := start(t, tb, Config{})
		running := func() []bool {
			synctest.Wait()
			p.Elector.mu.Lock()
			defer p.Elector.mu.Unlock()
			return []bool{p.renewing, p.looking, p.watching}
		}
		for range 3 {
			term := p.mustLead(t, "report")
			ctx, cancel := context.WithCancel(t.Context())
			tb.put("other", "rival", time.Hour)
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
			asked := len(p.path.asked(time.Time{}))
			time.Sleep(time.Hour)
			if n := len(p.path.asked(time.Time{})) - asked; n > 0 {
				t.Errorf("%d statements in an idle hour", n)
			}
		}
	})
}

package leader

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/internal/pgfake"
)

func TestTrustIsCountedFromSendingTheClaim(t *testing.T) {
	for _, tt := range []struct {
		name  string
		ttl   time.Duration
		claim pgfake.Trouble
	}{
		{"quick", 15 * time.Second, pgfake.Trouble{}},
		{"slow answer", 15 * time.Second, pgfake.Trouble{Slow: 4 * time.Second}},
		{"slow way to the server", 15 * time.Second, pgfake.Trouble{Late: 4 * time.Second}},
		{
			"slow both ways", 15 * time.Second,
			pgfake.Trouble{Late: 2 * time.Second, Slow: 2 * time.Second},
		},
		{"half a second", 500 * time.Millisecond, pgfake.Trouble{Slow: 150 * time.Millisecond}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				p := start(t, tb, Config{TTL: tt.ttl})
				p.path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
					if s.Kind == pgfake.KindAcquire {
						return tt.claim
					}
					return pgfake.Trouble{Hangs: true}
				})
				sent := time.Now()
				term := p.mustLead(t, "report")
				<-term.Context().Done()
				after(t, sent, tt.ttl-tt.ttl/10, "the term ended")
				if !tb.Live("report") {
					t.Error("the lease ended before the term")
				}
				if cause := context.Cause(term.Context()); !errors.Is(cause, ErrLost) {
					t.Errorf("the cause is %v, want ErrLost", cause)
				}
				time.Sleep(tt.ttl) // for the renewal that hangs
			})
		})
	}
}

func TestTrustIsCountedFromSendingTheRenewal(t *testing.T) {
	for name, slow := range map[string]pgfake.Trouble{
		"slow answer":            {Slow: 4 * time.Second},
		"slow way to the server": {Late: 4 * time.Second},
	} {
		for kind, jobs := range map[string][]string{"one term": {"a"}, "many terms": {"a", "b"}} {
			t.Run(name+", "+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					tb := pgfake.NewTable()
					p := start(t, tb, Config{})
					renewals := 0
					p.path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
						if s.Renews() {
							if renewals++; renewals == 1 {
								return slow
							}
							return pgfake.Trouble{Fails: pgfake.ErrReset}
						}
						return pgfake.Trouble{}
					})
					began := time.Now()
					var terms []*Term
					for _, job := range jobs {
						terms = append(terms, p.mustLead(t, job))
					}
					for _, term := range terms {
						<-term.Context().Done()
						after(t, began, p.renewEvery+p.ttl-p.margin, "the term ended")
						if !tb.Live(term.Job()) {
							t.Error("the lease ended before the term")
						}
					}
				})
			})
		}
	}
}

// suspend stops the machine for a while: its monotonic clock stands still, the wall clock and the
// database's go on.
func suspend(tb *pgfake.Table, wall *atomic.Int64, d time.Duration) {
	tb.Step(d)
	wall.Add(int64(d))
}

func (p *process) setWall() *atomic.Int64 {
	var ahead atomic.Int64
	p.wall = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())).Round(0) }
	return &ahead
}

func TestSuspendedMachineLosesItsTermSoonAfterWaking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, Config{})
		wall := p.setWall()
		term := p.mustLead(t, "report")
		time.Sleep(7 * time.Second)
		asked := len(p.path.Asked(time.Time{}))
		suspend(tb, wall, time.Hour)
		woke := time.Now()
		<-term.Context().Done()
		within(t, woke, p.margin/2, "the term ended")
		if !errors.Is(context.Cause(term.Context()), ErrLost) {
			t.Errorf("the cause is %v, want ErrLost", context.Cause(term.Context()))
		}
		if n := len(p.path.Asked(time.Time{})) - asked; n > 0 {
			t.Errorf("it took %d statements to learn that the term is over", n)
		}
	})
}

func TestSuspendedMachineIsNotTrustedEvenBeforeATimerRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, Config{})
		wall := p.setWall()
		guarded := p.mustLead(t, "guarded")
		polled := p.mustLead(t, "polled")
		suspend(tb, wall, time.Hour)
		tb.Put("polled", "rival", time.Hour)
		woke := time.Now()

		if err := guarded.Guard(t.Context(), new(sql.Tx)); !errors.Is(err, ErrLost) {
			t.Errorf("Guard = %v, want ErrLost", err)
		}
		if guarded.Context().Err() == nil {
			t.Error("the context outlives the refusal of Guard")
		}
		if term, ok, err := p.TryAcquire(t.Context(), "polled"); ok || err != nil {
			t.Errorf("TryAcquire = %v, %v, %v; a rival leads", term, ok, err)
		}
		if polled.Context().Err() == nil {
			t.Error("the context outlives the refusal of TryAcquire")
		}
		after(t, woke, 0, "refused")
	})
}

func TestCampaignOfTheSameProcessSeesTheSuspendedTermOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, Config{})
		wall := p.setWall()
		old := p.mustLead(t, "report")
		suspend(tb, wall, time.Hour)
		woke := time.Now()
		term, err := p.Campaign(t.Context(), "report")
		if err != nil {
			t.Fatal(err)
		}
		after(t, woke, 0, "elected again")
		if term.Token() <= old.Token() {
			t.Errorf("token %d follows %d", term.Token(), old.Token())
		}
		mustResign(t, term)
	})
}

func TestShortSuspendCountsAgainstTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, Config{})
		wall := p.setWall()
		p.path.Suffer(pgfake.Only(pgfake.KindRenewOne, pgfake.Trouble{Fails: pgfake.ErrReset}))
		began := time.Now()
		term := p.mustLead(t, "report")
		time.Sleep(time.Second)
		suspend(tb, wall, 5*time.Second)
		<-term.Context().Done()
		if over := p.ttl - p.margin - 5*time.Second; time.Since(began) < over {
			t.Errorf("the term ended after %v, want not before %v", time.Since(began), over)
		} else {
			within(t, began, over+p.wallCheck, "the term ended")
		}
		if !tb.Live("report") {
			t.Error("the lease ended before the term")
		}
	})
}

func TestShortSuspendIsSurvivedByARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, Config{})
		wall := p.setWall()
		term := p.mustLead(t, "report")
		time.Sleep(time.Second)
		suspend(tb, wall, 5*time.Second)
		time.Sleep(time.Minute)
		if term.Context().Err() != nil {
			t.Errorf("the term is over: %v", context.Cause(term.Context()))
		}
		mustResign(t, term)
	})
}

func TestWallClockSetBackProlongsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, Config{})
		wall := p.setWall()
		p.path.Suffer(pgfake.Only(pgfake.KindRenewOne, pgfake.Trouble{Fails: pgfake.ErrReset}))
		began := time.Now()
		term := p.mustLead(t, "report")
		time.Sleep(time.Second)
		wall.Store(-int64(time.Hour))
		<-term.Context().Done()
		after(t, began, p.ttl-p.margin, "the term ended")
	})
}

func TestWallClockSetBackEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, Config{})
		wall := p.setWall()
		term := p.mustLead(t, "report")
		wall.Store(-int64(time.Hour))
		time.Sleep(time.Minute)
		wall.Store(-int64(time.Hour) + int64(time.Second)) // the clock is set right bit by bit
		time.Sleep(time.Minute)
		if term.Context().Err() != nil {
			t.Errorf("the term is over: %v", context.Cause(term.Context()))
		}
		mustResign(t, term)
	})
}

// What a term's context carries comes from the caller, but not its end.
func TestTermOutlivesTheContextOfItsClaim(t *testing.T) {
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		p := start(t, pgfake.NewTable(), Config{})
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "trace"), time.Second)
		defer cancel()
		term, err := p.Campaign(ctx, "report")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if term.Context().Err() != nil || term.Context().Value(key{}) != "trace" {
			t.Errorf("after its campaign's context ended: %v, value %v",
				term.Context().Err(), term.Context().Value(key{}))
		}
		mustResign(t, term)
	})
}

func TestGuardOfAResignedTermIsRefusedWithoutAsking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, pgfake.NewTable(), Config{})
		term := p.mustLead(t, "report")
		mustResign(t, term)
		if err := term.Guard(t.Context(), new(sql.Tx)); !errors.Is(err, ErrLost) {
			t.Errorf("Guard = %v, want ErrLost", err)
		}
		if err := term.Guard(t.Context(), nil); err == nil {
			t.Error("Guard takes no transaction for one")
		}
		cause := context.Cause(term.Context())
		if errors.Is(cause, ErrLost) || !errors.Is(cause, context.Canceled) {
			t.Errorf("the cause of a resigned term is %v", cause)
		}
	})
}

package leader

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/internal/pgcall"
	"github.com/pgleader/pgleader/internal/pgfake"
)

// firstClaims is a trouble for the first n claims of a process.
func firstClaims(n int, tr pgfake.Trouble) func(pgfake.Statement) pgfake.Trouble {
	return func(s pgfake.Statement) pgfake.Trouble {
		if s.Kind == pgfake.KindAcquire && s.Nth <= n {
			return tr
		}
		return pgfake.Trouble{}
	}
}

// The server granted the lease, and nobody heard of it. Asking again must neither leave the job
// without a leader nor make two terms of one.
func TestLostAnswerToAClaimIsAskedForAgain(t *testing.T) {
	for name, lost := range map[string]pgfake.Trouble{
		"answer lost":      {Loses: pgfake.ErrReset},
		"answer swallowed": {Swallows: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				p := start(t, tb, Config{})
				p.path.Suffer(firstClaims(1, lost))
				term := p.mustLead(t, "report")
				if term.Token() != 1 || tb.Row("report").Token != 1 {
					t.Errorf("token %d, in the table %d, want 1", term.Token(), tb.Row("report").Token)
				}
				claims := p.path.Asked(time.Time{}, pgfake.KindAcquire)
				if len(claims) != 2 {
					t.Errorf("asked %d times, want 2", len(claims))
				}
				p.path.Suffer(pgfake.Only(pgfake.KindRenewOne, pgfake.Trouble{Fails: pgfake.ErrReset}))
				<-term.Context().Done()
				after(t, claims[len(claims)-1].At, p.ttl-p.margin, "the term ended")
			})
		})
	}
}

func TestLeaseGrantedInAnswersThatWereAllLostIsFoundAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, Config{})
		p.path.Suffer(firstClaims(maxClaims, pgfake.Trouble{Loses: pgfake.ErrReset}))
		if _, ok, err := p.TryAcquire(t.Context(), "report"); ok || !errors.Is(err, pgfake.ErrReset) {
			t.Fatalf("TryAcquire = %v, %v; want the driver's error", ok, err)
		}
		if term := p.mustLead(t, "report"); term.Token() != 1 {
			t.Errorf("token %d, want 1", term.Token())
		} else {
			mustResign(t, term)
		}
		if n := len(p.reported(EventElected)); n != 1 {
			t.Errorf("elected %d times, want once", n)
		}
	})
}

func TestCampaignFindsTheLeaseThatLostAnswersGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, Config{})
		p.path.Suffer(firstClaims(maxClaims, pgfake.Trouble{Loses: pgfake.ErrReset}))
		began := time.Now()
		term, err := p.Campaign(t.Context(), "report")
		if err != nil {
			t.Fatal(err)
		}
		within(t, began, p.retryEvery*5/4, "elected")
		if term.Token() != 1 {
			t.Errorf("token %d, want 1", term.Token())
		}
		mustResign(t, term)
	})
}

func TestLeaseOfATermGivenUpIsTakenOverUnderANewToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, Config{})
		began := time.Now()
		old := p.mustLead(t, "report")
		p.path.Suffer(pgfake.Only(pgfake.KindRenewOne, pgfake.Trouble{Fails: pgfake.ErrReset}))
		<-old.Context().Done()
		p.path.Suffer(nil)
		term, err := p.Campaign(t.Context(), "report")
		if err != nil {
			t.Fatal(err)
		}
		if term.Token() != old.Token()+1 || tb.Row("report").Token != term.Token() {
			t.Errorf("token %d follows %d, in the table %d",
				term.Token(), old.Token(), tb.Row("report").Token)
		}
		after(t, began, p.ttl-p.margin, "elected again, before its old lease ended,")
		mustResign(t, term)
	})
}

func TestRivalsAtWorkAreAskedAgain(t *testing.T) {
	for name, rivals := range map[string]error{
		"no row":        sql.ErrNoRows,
		"serialization": pgfake.ServerError("40001"),
		"deadlock":      pgfake.ServerError("40P01"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t, pgfake.NewTable(), Config{})
				p.path.Suffer(firstClaims(maxClaims-1, pgfake.Trouble{Fails: rivals}))
				term := p.mustLead(t, "report")
				mustResign(t, term)
				if n := len(p.path.Asked(time.Time{}, pgfake.KindAcquire)); n != maxClaims {
					t.Errorf("asked %d times, want %d", n, maxClaims)
				}

				p.path.Suffer(pgfake.Only(pgfake.KindAcquire, pgfake.Trouble{Fails: rivals}))
				if _, ok, err := p.TryAcquire(t.Context(), "report"); ok || !errors.Is(err, rivals) {
					t.Errorf("TryAcquire = %v, %v; want %v", ok, err, rivals)
				}
				if n := len(p.path.Asked(time.Time{}, pgfake.KindAcquire)); n != 2*maxClaims {
					t.Errorf("asked %d times in all, want %d", n, 2*maxClaims)
				}
			})
		})
	}
}

func TestServerErrorIsNotAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, pgfake.NewTable(), Config{})
		for _, state := range []string{"42P01", "25006", "57014", "53300"} {
			began := len(p.path.Asked(time.Time{}))
			p.path.Suffer(pgfake.Always(pgfake.Trouble{Fails: pgfake.ServerError(state)}))
			if _, ok, err := p.TryAcquire(t.Context(), "report"); ok || pgcall.SQLState(err) != state {
				t.Errorf("TryAcquire = %v, %v; want SQLSTATE %s", ok, err, state)
			}
			if n := len(p.path.Asked(time.Time{})) - began; n != 1 {
				t.Errorf("SQLSTATE %s: asked %d times, want once", state, n)
			}
		}
	})
}

func TestLeaseGrantedAfterTheCallerHasGoneIsGivenBack(t *testing.T) {
	for name, tt := range map[string]struct {
		claim  pgfake.Trouble
		limit  time.Duration // from the end of the caller's context
		leaked bool
	}{
		"answer within the grace": {
			claim: pgfake.Trouble{Slow: 700 * time.Millisecond},
			limit: 500 * time.Millisecond,
		},
		"slow server": {
			claim: pgfake.Trouble{Late: 700 * time.Millisecond},
			limit: 500 * time.Millisecond,
		},
		"answer lost": {
			claim: pgfake.Trouble{Slow: 700 * time.Millisecond, Loses: pgfake.ErrReset},
			limit: 500 * time.Millisecond,
		},
		"answer swallowed": {
			claim: pgfake.Trouble{Swallows: true},
			limit: claimGrace, leaked: true,
		},
		"call hangs": {
			claim: pgfake.Trouble{Hangs: true},
			limit: claimGrace,
		},
		"no row": {
			claim: pgfake.Trouble{Slow: 700 * time.Millisecond, Loses: sql.ErrNoRows},
			limit: 500 * time.Millisecond,
		},
		"answer beyond the grace": {
			claim: pgfake.Trouble{Slow: 4 * time.Second},
			limit: claimGrace, leaked: true,
		},
		"a refusal of the server's": {
			claim: pgfake.Trouble{Late: 700 * time.Millisecond, Fails: pgfake.ServerError("57014")},
			limit: 500 * time.Millisecond,
		},
	} {
		for call, claim := range map[string]func(context.Context, *process) error{
			"TryAcquire": func(ctx context.Context, p *process) error {
				_, _, err := p.TryAcquire(ctx, "report")
				return err
			},
			"Campaign": func(ctx context.Context, p *process) error {
				_, err := p.Campaign(ctx, "report")
				return err
			},
		} {
			t.Run(call+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					tb := pgfake.NewTable()
					p := start(t, tb, Config{})
					p.path.Suffer(firstClaims(1, tt.claim))
					ctx, cancel := context.WithCancel(t.Context())
					time.AfterFunc(200*time.Millisecond, cancel)
					began := time.Now()
					err := claim(ctx, p)
					within(t, began, 200*time.Millisecond+tt.limit, "returned")
					if err == nil || ctx.Err() == nil {
						t.Errorf("the call returned %v after %v", err, time.Since(began))
					}
					if live := tb.Live("report"); live && !tt.leaked {
						t.Error("the lease lives on without a leader")
					}
					if n := len(p.reported(EventElected)); n != 0 {
						t.Error("an election was reported")
					}
					p.path.Unhang()

					// In any case this process finds its own lease again.
					p.path.Suffer(nil)
					mustResign(t, p.mustLead(t, "report"))
				})
			})
		}
	}
}

// The lease was granted just before the path broke. A caller that has gone must not be held up
// until it is given back.
func TestGivingBackDoesNotHoldUpTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, Config{})
		p.path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
			if s.Kind == pgfake.KindAcquire {
				return pgfake.Trouble{Slow: 700 * time.Millisecond}
			}
			return pgfake.Trouble{Hangs: true}
		})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(200*time.Millisecond, cancel)
		began := time.Now()
		if _, err := p.Campaign(ctx, "report"); !errors.Is(err, context.Canceled) {
			t.Errorf("Campaign = %v, want context.Canceled", err)
		}
		within(t, began, 200*time.Millisecond+2*claimGrace, "returned")
		time.Sleep(p.ttl)
	})
}

// What an abandoned claim knows must not change while it hangs. If a late one took the process's
// live term for one given up, it would end it.
func TestAbandonedClaimDoesNotEndTheTermThatFollowedIt(t *testing.T) {
	for name, abandon := range map[string]func(*process){
		"in a pooled connection that is dead": func(p *process) {
			p.path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
				if s.Kind == pgfake.KindAcquire && s.Nth == 1 {
					return pgfake.Trouble{Late: p.callLimit + 2*time.Second, Deaf: true, Fails: driver.ErrBadConn}
				}
				return pgfake.Trouble{Deaf: true}
			})
		},
		"in a connection that comes late": func(p *process) {
			p.path.DialSlowly(p.callLimit + 2*time.Second)
			p.path.Suffer(pgfake.Always(pgfake.Trouble{Deaf: true}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				p := start(t, tb, Config{})
				abandon(p)
				term := p.mustLead(t, "report")
				time.Sleep(time.Minute)
				if term.Context().Err() != nil || tb.Row("report").Token != term.Token() {
					t.Errorf("the term with token %d is over, the table has %d: %v",
						term.Token(), tb.Row("report").Token, context.Cause(term.Context()))
				}
				mustResign(t, term)
			})
		})
	}
}

func TestEndedContextAsksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, pgfake.NewTable(), Config{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, ok, err := p.TryAcquire(ctx, "report"); ok || !errors.Is(err, context.Canceled) {
			t.Errorf("TryAcquire = %v, %v; want context.Canceled", ok, err)
		}
		if _, err := p.Campaign(ctx, "report"); !errors.Is(err, context.Canceled) {
			t.Errorf("Campaign = %v, want context.Canceled", err)
		}
		err := p.Run(ctx, "report", func(context.Context, *Term) error { return nil })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Run = %v, want context.Canceled", err)
		}
		if n := len(p.path.Asked(time.Time{})); n != 0 {
			t.Errorf("%d statements", n)
		}
	})
}

func TestTryAcquireReturnsTheTermThatItsProcessHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, pgfake.NewTable(), Config{})
		term := p.mustLead(t, "report")
		p.path.Suffer(pgfake.Only(pgfake.KindAcquire, pgfake.Trouble{Hangs: true}))
		for range 100 { // the textbook form: on every tick
			if again := p.mustLead(t, "report"); again != term {
				t.Fatal("it is another term")
			}
			time.Sleep(time.Second)
		}
		if n := len(p.path.Asked(time.Time{}, pgfake.KindAcquire)); n != 1 {
			t.Errorf("asked %d times, want once", n)
		}
		mustResign(t, term)
	})
}

func TestConcurrentTryAcquiresShareOneTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, pgfake.NewTable(), Config{})
		p.path.Suffer(pgfake.Only(pgfake.KindAcquire, pgfake.Trouble{Slow: time.Second}))
		terms := make(chan *Term, 10)
		var all sync.WaitGroup
		for range cap(terms) {
			all.Go(func() {
				term, ok, err := p.TryAcquire(t.Context(), "report")
				if !ok || err != nil {
					t.Errorf("TryAcquire = %v, %v", ok, err)
				}
				terms <- term
			})
		}
		all.Wait()
		first := <-terms
		for len(terms) > 0 {
			if <-terms != first {
				t.Error("two terms of one job")
			}
		}
		if n := len(p.path.Asked(time.Time{}, pgfake.KindAcquire)); n != 1 {
			t.Errorf("asked %d times, want once", n)
		}
		mustResign(t, first)
	})
}

func TestTryAcquireGivesWayToItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, pgfake.NewTable(), Config{})
		p.path.Suffer(firstClaims(1, pgfake.Trouble{Slow: 4 * time.Second}))
		term := make(chan *Term)
		go func() { got, _, _ := p.TryAcquire(t.Context(), "report"); term <- got }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, ok, err := p.TryAcquire(ctx, "report"); ok || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("TryAcquire = %v, %v; want context.DeadlineExceeded", ok, err)
		}
		after(t, began, time.Second, "returned")
		mustResign(t, <-term)
	})
}

func TestTryAcquireReportsWhoLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		tb.Put("report", "web-1", time.Hour)
		p := start(t, tb, Config{Holder: "web-10"})
		if _, ok, err := p.TryAcquire(t.Context(), "report"); ok || err != nil {
			t.Errorf("TryAcquire = %v, %v; another holder leads", ok, err)
		}
		skipped := p.reported(EventSkipped)
		if len(skipped) != 1 || skipped[0].Holder != "web-1" || skipped[0].Token != 1 ||
			skipped[0].Job != "report" {
			t.Errorf("reported: %+v", skipped)
		}
	})
}

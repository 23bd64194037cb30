package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/internal/pgfake"
)

// wait starts a campaign for each job. What it returns calls them off and waits for their end.
func (p *process) wait(t *testing.T, jobs ...string) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, job := range jobs {
		all.Go(func() {
			term, err := p.Campaign(ctx, job)
			if err == nil {
				mustResign(t, term)
			} else if !errors.Is(err, context.Canceled) {
				t.Errorf("Campaign for %q: %v", job, err)
			}
		})
	}
	synctest.Wait()
	return func() { cancel(); all.Wait() }
}

func jobNames(n int) []string {
	jobs := make([]string, n)
	for i := range jobs {
		jobs[i] = fmt.Sprintf("job-%d", i)
	}
	return jobs
}

func TestAllCandidatesOfAProcessAskByOneStatement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		jobs := jobNames(1000)
		leader, follower := start(t, tb, Config{}), start(t, tb, Config{})
		for _, job := range jobs {
			defer mustResign(t, leader.mustLead(t, job))
		}
		defer follower.wait(t, jobs...)()
		began := time.Now().Add(time.Nanosecond) // after each campaign's first claim
		time.Sleep(time.Minute)
		asked := follower.path.Asked(began)
		most := int(time.Minute / follower.retryEvery)
		fewest := int(time.Minute / (follower.retryEvery * 5 / 4))
		if len(asked) > most || len(asked) < fewest {
			t.Errorf("%d statements in a minute, want %d to %d", len(asked), fewest, most)
		}
		for _, s := range asked {
			if s.Kind != pgfake.KindLook || len(s.Jobs) != len(jobs) {
				t.Fatalf("%q for %d jobs, want one look for all %d", s.Kind, len(s.Jobs), len(jobs))
			}
		}
	})
}

func TestManyCandidatesForOneJobAskOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		tb.Put("report", "rival", time.Hour)
		p := start(t, tb, Config{})
		jobs := make([]string, 100)
		for i := range jobs {
			jobs[i] = "report"
		}
		defer p.wait(t, jobs...)()
		began := time.Now().Add(time.Nanosecond)
		time.Sleep(time.Minute)
		for _, s := range p.path.Asked(began) {
			if s.Kind != pgfake.KindLook || len(s.Jobs) != 1 {
				t.Fatalf("%q for %d jobs, want a look for one", s.Kind, len(s.Jobs))
			}
		}
		if n, most := len(p.path.Asked(began)), int(time.Minute/p.retryEvery); n > most {
			t.Errorf("%d statements in a minute, want at most %d", n, most)
		}
	})
}

func TestCandidateIsElectedAtTheKnownExpiry(t *testing.T) {
	for name, left := range map[string]time.Duration{
		"soon":             300 * time.Millisecond,
		"after some looks": 25 * time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				tb.Put("report", "dead", left)
				p := start(t, tb, Config{RetryEvery: 10 * time.Second})
				began := time.Now()
				term, err := p.Campaign(t.Context(), "report")
				if err != nil {
					t.Fatal(err)
				}
				within(t, began, left+maxSpread, "elected")
				if n, most := len(p.path.Asked(began)), 3+int(left/p.retryEvery); n > most {
					t.Errorf("%d statements, want at most %d", n, most)
				}
				mustResign(t, term)
			})
		})
	}
}

func TestCandidateIsElectedWithinRetryEveryOfAResignation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		a, b := start(t, tb, Config{}), start(t, tb, Config{})
		old := a.mustLead(t, "report")
		resigned := make(chan time.Time, 1)
		time.AfterFunc(20*time.Second, func() { mustResign(t, old); resigned <- time.Now() })
		term, err := b.Campaign(t.Context(), "report")
		if err != nil {
			t.Fatal(err)
		}
		within(t, <-resigned, b.retryEvery*5/4, "elected")
		mustResign(t, term)
	})
}

func TestWokenCandidateLooksAtOnce(t *testing.T) {
	for _, name := range []string{"report", ""} {
		t.Run(fmt.Sprintf("%q", name), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				tb.Put("report", "rival", time.Hour)
				p := start(t, tb, Config{})
				woken := make(chan time.Time, 1)
				time.AfterFunc(time.Second, func() { tb.Free("report"); p.Wake(name); woken <- time.Now() })
				term, err := p.Campaign(t.Context(), "report")
				if err != nil {
					t.Fatal(err)
				}
				after(t, <-woken, 0, "elected")
				mustResign(t, term)
			})
		})
	}
}

func TestWakesCoalesce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		tb.Put("report", "rival", time.Hour)
		p := start(t, tb, Config{})
		p.Wake("report") // before anybody waits it does nothing
		defer p.wait(t, "report")()
		p.path.Suffer(pgfake.Always(pgfake.Trouble{Slow: 100 * time.Millisecond}))
		began := time.Now().Add(time.Nanosecond)
		time.Sleep(50 * time.Millisecond)
		for range 1000 {
			p.Wake("report")
			p.Wake("")
			p.Wake("another job") // nobody waits for it
		}
		time.Sleep(time.Second)
		if n := len(p.path.Asked(began)); n < 1 || n > 2 {
			t.Errorf("%d statements for 1,000 wakes, want 1, or 2 if one came during a look", n)
		}
		p.Wake("another job")
		time.Sleep(50 * time.Millisecond)
		if n := len(p.path.Asked(began)); n > 2 {
			t.Error("a wake for a job that nobody waits for made it look")
		}
	})
}

// An expired lease whose row somebody keeps locked (an open guard, a session left alone) looks free
// and can't be had.
func TestCandidateDoesNotSpinOnAnExpiredLeaseWithALockedRow(t *testing.T) {
	for name, tt := range map[string]struct {
		own    bool
		claims int // for each look
	}{"of another": {false, 1}, "of its own": {true, maxClaims}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				p := start(t, tb, Config{})
				holder := "dead"
				if tt.own {
					holder = p.Holder()
				}
				tb.Put("report", holder, time.Second)
				unlock := tb.Lock("report")
				unlocked := make(chan time.Time, 1)
				time.AfterFunc(time.Minute, func() { unlock(); unlocked <- time.Now() })
				began := time.Now()
				term, err := p.Campaign(t.Context(), "report")
				if err != nil {
					t.Fatal(err)
				}
				within(t, <-unlocked, p.retryEvery*5/4, "elected")
				looks := len(p.path.Asked(began, pgfake.KindLook))
				claims := len(p.path.Asked(began, pgfake.KindAcquire))
				if most := int(time.Minute/p.retryEvery) + 2; looks > most {
					t.Errorf("%d looks in a minute, want at most %d", looks, most)
				}
				if most := tt.claims * (looks + 1); claims > most {
					t.Errorf("%d claims after %d looks, want at most %d", claims, looks, most)
				}
				mustResign(t, term)
			})
		})
	}
}

func TestCampaignEndsAtOnceWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		tb.Put("report", "rival", time.Hour)
		p := start(t, tb, Config{})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		if _, err := p.Campaign(ctx, "report"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Campaign = %v, want context.DeadlineExceeded", err)
		}
		after(t, began, 10*time.Second, "returned")
	})
}

func TestCampaignWaitsOutFailuresOfTheDatabase(t *testing.T) {
	for name, outage := range map[string]pgfake.Trouble{
		"errors":           {Fails: pgfake.ErrReset},
		"read-only server": {Fails: pgfake.ServerError("25006")},
		"starting up":      {Fails: pgfake.ServerError("57P03")},
		"hangs":            {Hangs: true},
		"too slow":         {Slow: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t, pgfake.NewTable(), Config{})
				p.path.Suffer(pgfake.Always(outage))
				back := make(chan time.Time, 1)
				time.AfterFunc(30*time.Second, func() {
					p.path.Suffer(nil)
					p.path.Unhang()
					back <- time.Now()
				})
				term, err := p.Campaign(t.Context(), "report")
				if err != nil {
					t.Fatal(err)
				}
				within(t, <-back, time.Minute, "elected")
				if n := len(p.reported(EventClaimFailed)); n != 1 {
					t.Errorf("%d failed claims reported, want the first", n)
				}
				if n := len(p.reported(EventLookFailed)); n != 1 {
					t.Errorf("%d failed looks reported, want the first", n)
				}
				mustResign(t, term)
			})
		})
	}
}

// Cut short at the limit of a call, it would be begun anew by every try and never be there.
func TestConnectionThatIsSlowToOpenIsOpenedToTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, pgfake.NewTable(), Config{TTL: 500 * time.Millisecond})
		p.path.DialSlowly(3 * time.Second)
		began := time.Now()
		term, err := p.Campaign(t.Context(), "report")
		if err != nil {
			t.Fatal(err)
		}
		// Meanwhile the gate closes, for as long as it has waited.
		within(t, began, 6*time.Second, "elected")
		mustResign(t, term)
		time.Sleep(10 * time.Second)
	})
}

// On a standby, and for a role without rights, looks succeed while claims fail.
func TestCandidateDoesNotSpinOnAFreeLeaseThatItMayNotTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, pgfake.NewTable(), Config{})
		p.path.Suffer(pgfake.Only(pgfake.KindAcquire, pgfake.Trouble{Fails: pgfake.ServerError("25006")}))
		stop := p.wait(t, "report")
		began := time.Now().Add(time.Nanosecond)
		time.Sleep(time.Minute)
		claims, most := len(p.path.Asked(began, pgfake.KindAcquire)), int(time.Minute/p.retryEvery)
		if claims > most || claims == 0 {
			t.Errorf("%d claims in a minute, want 1 to %d", claims, most)
		}
		if n := len(p.reported(EventClaimFailed)); n != 1 {
			t.Errorf("%d failed claims reported, want the first", n)
		}
		stop()
	})
}

func TestCampaignGivesUpWhereAskingAgainCannotHelp(t *testing.T) {
	for name, tt := range map[string]struct {
		state string
		kind  pgfake.Kind
		want  error
	}{
		"no table at the claim": {"42P01", pgfake.KindAcquire, ErrNotMigrated},
		"no table at a look":    {"42P01", pgfake.KindLook, ErrNotMigrated},
		"no schema":             {"3F000", pgfake.KindAcquire, ErrNotMigrated},
		"no rights":             {"42501", pgfake.KindAcquire, ErrForbidden},
		"no rights at a look":   {"42501", pgfake.KindLook, ErrForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				tb.Put("report", "rival", time.Hour)
				p := start(t, tb, Config{})
				p.path.Suffer(pgfake.Only(tt.kind, pgfake.Trouble{Fails: pgfake.ServerError(tt.state)}))
				_, err := p.Campaign(t.Context(), "report")
				var server pgfake.ServerError
				if !errors.Is(err, tt.want) || !errors.As(err, &server) {
					t.Errorf("Campaign = %v, want %v and the server's error", err, tt.want)
				}
			})
		})
	}
}

func TestCampaignsOfOneProcessLeadOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, pgfake.NewTable(), Config{})
		leading := 0
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				term, err := p.Campaign(t.Context(), "report")
				if err != nil {
					t.Error(err)
					return
				}
				if leading++; leading > 1 {
					t.Error("two terms at once")
				}
				time.Sleep(time.Minute)
				leading--
				mustResign(t, term)
			})
		}
		began := time.Now()
		all.Wait()
		after(t, began, 10*time.Minute, "all have led")
	})
}

func TestWaitingIsReportedOnceForEachTermOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		tb.Put("report", "first", time.Hour)
		p := start(t, tb, Config{})
		stop := p.wait(t, "report")
		time.Sleep(time.Minute)
		tb.Put("report", "second", time.Hour)
		time.Sleep(time.Minute)
		stop()
		waiting := p.reported(EventWaiting)
		if len(waiting) != 2 || waiting[0].Holder != "first" ||
			waiting[1].Holder != "second" || waiting[1].Token != 2 {
			t.Errorf("reported: %+v", waiting)
		}
	})
}

// client-go#1187: a stop callback ran in a process that had never led.
func TestFollowerThatIsCalledOffReportsNoTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		tb.Put("report", "rival", time.Hour)
		p := start(t, tb, Config{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := p.Run(ctx, "report", func(context.Context, *Term) error {
			t.Error("it works without leading")
			return nil
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Run = %v, want context.DeadlineExceeded", err)
		}
		if events := p.reported(EventElected, EventLost, EventResigned); len(events) > 0 {
			t.Errorf("reported: %+v", events)
		}
		if tb.Row("report").Holder != "rival" || !tb.Live("report") {
			t.Errorf("the leader's lease is %+v", tb.Row("report"))
		}
	})
}

// A server that gives up every look in favour of another statement gets no more of them than a
// few a turn, and none when nobody waits any more.
func TestLooksThatAreGivenUpAgainAndAgainWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		tb.Put("report", "rival", time.Hour)
		p := start(t, tb, Config{})
		p.path.Suffer(pgfake.Only(pgfake.KindLook, pgfake.Trouble{
			Late: time.Millisecond, Fails: pgfake.ServerError("40001"),
		}))
		stop := p.wait(t, "report")
		began := time.Now()
		time.Sleep(time.Minute)
		turns := int(time.Minute / p.retryEvery)
		if looks := len(p.path.Asked(began, pgfake.KindLook)); looks > 10*turns {
			t.Errorf("%d looks in %d turns", looks, turns)
		}
		if failed := p.reported(EventLookFailed); len(failed) != 1 || failed[0].Job != "report" {
			t.Errorf("reported %+v, want one row of failures", failed)
		}
		stop()
		time.Sleep(time.Second)
		ended := time.Now()
		time.Sleep(time.Minute)
		if looks := len(p.path.Asked(ended)); looks > 0 {
			t.Errorf("%d looks, though nobody waits", looks)
		}
	})
}

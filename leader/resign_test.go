package leader

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/internal/pgcall"
	"github.com/pgleader/pgleader/internal/pgfake"
)

func TestResignEndsTheContextBeforeItAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, Config{})
		term := p.mustLead(t, "report")
		p.path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
			if s.Kind == pgfake.KindRelease && term.Context().Err() == nil {
				t.Error("asked while the term's context lives")
			}
			return pgfake.Trouble{}
		})
		began := time.Now()
		mustResign(t, term)
		after(t, began, 0, "resigned")
		if tb.Live("report") {
			t.Error("the lease lives on")
		}
		if errors.Is(context.Cause(term.Context()), ErrLost) {
			t.Errorf("the cause is %v: a resigned term is not lost", context.Cause(term.Context()))
		}
		if resigned := p.reported(EventResigned); len(resigned) != 1 || resigned[0].Err != nil {
			t.Errorf("reported: %+v", resigned)
		}
	})
}

func TestResignIsBoundedByTheLifeOfTheLease(t *testing.T) {
	for name, outage := range map[string]pgfake.Trouble{
		"calls hang":       {Hangs: true},
		"errors":           {Fails: pgfake.ErrReset},
		"read-only server": {Fails: pgfake.ServerError("25006")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				p := start(t, tb, Config{})
				elected := time.Now()
				term := p.mustLead(t, "report")
				time.Sleep(2 * time.Second)
				p.path.Suffer(pgfake.Always(outage))
				began := time.Now()
				ended := make(chan time.Time, 1)
				context.AfterFunc(term.Context(), func() { ended <- time.Now() })
				if err := term.Resign(); err == nil {
					t.Error("Resign = nil although the database did not hear of it")
				}
				within(t, elected, p.ttl, "Resign returned")
				if at := <-ended; !at.Equal(began) {
					t.Errorf("the context ended %v after the call", at.Sub(began))
				}
				if resigned := p.reported(EventResigned); len(resigned) != 1 || resigned[0].Err == nil {
					t.Errorf("reported: %+v", resigned)
				}
				if n := len(p.reported(EventResignFailed)); n != 1 {
					t.Errorf("%d failures reported, want the first", n)
				}

				asked := len(p.path.Asked(time.Time{}, pgfake.KindRelease))
				if asked < 2 {
					t.Errorf("asked %d times, want several", asked)
				}
				if err := term.Resign(); err != nil {
					t.Errorf("Resign = %v after the end of the lease", err)
				}
				if n := len(p.path.Asked(time.Time{}, pgfake.KindRelease)) - asked; n > 0 {
					t.Errorf("asked %d times after the end of the lease", n)
				}
			})
		})
	}
}

func TestResignTriesAgainUntilTheDatabaseHears(t *testing.T) {
	for name, first := range map[string]pgfake.Trouble{
		"error":            {Fails: pgfake.ErrReset},
		"answer lost":      {Loses: pgfake.ErrReset},
		"call hangs":       {Hangs: true},
		"answer swallowed": {Swallows: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				p := start(t, tb, Config{})
				term := p.mustLead(t, "report")
				p.path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
					if s.Nth == 1 {
						return first
					}
					return pgfake.Trouble{}
				})
				began := time.Now()
				mustResign(t, term)
				within(t, began, p.callLimit+p.retryPause, "resigned")
				if tb.Live("report") {
					t.Error("the lease lives on")
				}
			})
		})
	}
}

// etcd#22123: a resignation that failed forgot the leadership, and the retry did nothing.
func TestFailedResignIsTriedAgainByTheNextCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, Config{})
		term := p.mustLead(t, "report")
		p.path.Suffer(pgfake.Only(pgfake.KindRelease, pgfake.Trouble{Fails: pgfake.ServerError("42501")}))
		if err := term.Resign(); pgcall.SQLState(err) != "42501" {
			t.Fatalf("Resign = %v, want the server's error", err)
		}
		if !tb.Live("report") {
			t.Fatal("the lease is over, the test shows nothing")
		}
		p.path.Suffer(nil)
		mustResign(t, term)
		if tb.Live("report") {
			t.Error("the second call did not end the lease")
		}
		if n := len(p.reported(EventResigned)); n != 1 {
			t.Errorf("%d resignations reported, want 1", n)
		}
	})
}

func TestResignAgainAsksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, pgfake.NewTable(), Config{})
		term := p.mustLead(t, "report")
		for range 3 {
			mustResign(t, term)
		}
		if n := len(p.path.Asked(time.Time{}, pgfake.KindRelease)); n != 1 {
			t.Errorf("asked %d times, want once", n)
		}
	})
}

// A second call must neither ask beside the first nor return before the lease is over. Not in a
// bubble, whose clock would stand still while calls wait for a mutex.
func TestConcurrentResignsAskOnce(t *testing.T) {
	arrived, answer := make(chan struct{}, 10), make(chan struct{})
	p := newProcess(t, pgfake.NewTable(), Config{})
	p.path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
		if s.Kind == pgfake.KindRelease {
			arrived <- struct{}{}
			<-answer
		}
		return pgfake.Trouble{}
	})
	term := p.mustLead(t, "report")
	results := make(chan error, 10)
	go func() { results <- term.Resign() }()
	<-arrived
	var started sync.WaitGroup
	for range 9 {
		started.Add(1)
		go func() {
			started.Done()
			results <- term.Resign()
		}()
	}
	started.Wait()
	for range 1000 { // time enough for a call that does not wait
		runtime.Gosched()
	}
	if len(arrived) > 0 || len(results) > 0 {
		t.Errorf("while one call waits for the database, %d more ask and %d have returned",
			len(arrived), len(results))
	}
	close(answer)
	for range cap(results) {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if n := len(p.path.Asked(time.Time{}, pgfake.KindRelease)); n != 1 {
		t.Errorf("asked %d times, want once", n)
	}
	if n := len(p.reported(EventResigned)); n != 1 {
		t.Errorf("%d resignations reported, want 1", n)
	}
}

func TestResignAfterATakeoverAsksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, Config{})
		term := p.mustLead(t, "report")
		tb.Put("report", "rival", time.Hour)
		<-term.Context().Done()
		mustResign(t, term)
		if n := len(p.path.Asked(time.Time{}, pgfake.KindRelease)); n != 0 {
			t.Errorf("asked %d times", n)
		}
		if !tb.Live("report") || tb.Row("report").Holder != "rival" {
			t.Errorf("the successor's lease is %+v", tb.Row("report"))
		}
		if n := len(p.reported(EventResigned)); n != 0 {
			t.Error("a lost term was reported as resigned")
		}
	})
}

// ShedLock#74: a late unlock hit the successor.
func TestStalledLeaderResignsWithoutTouchingItsSuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		a, b := start(t, tb, Config{}), start(t, tb, Config{})
		old := a.mustLead(t, "report")
		a.path.Suffer(pgfake.Always(pgfake.Trouble{Hangs: true}))
		term, err := b.Campaign(t.Context(), "report")
		if err != nil {
			t.Fatal(err)
		}
		if old.Context().Err() == nil {
			t.Error("two terms at once")
		}
		a.path.Suffer(nil)
		if err := old.Resign(); err != nil {
			t.Errorf("Resign = %v", err)
		}
		row := tb.Row("report")
		if !tb.Live("report") || row.Holder != b.Holder() || row.Token != term.Token() {
			t.Errorf("the successor's lease is %+v", row)
		}
		if term.Context().Err() != nil {
			t.Error("the successor's term is over")
		}
		mustResign(t, term)
	})
}

func TestResignReleasesALeaseThatOutlivesItsLostTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, Config{})
		term := p.mustLead(t, "report")
		p.path.Suffer(pgfake.Only(pgfake.KindRenewOne, pgfake.Trouble{Fails: pgfake.ErrReset}))
		<-term.Context().Done()
		mustResign(t, term)
		if tb.Live("report") {
			t.Error("the lease lives on, and the job has no leader")
		}
		if n := len(p.reported(EventResigned)); n != 0 {
			t.Error("a lost term was reported as resigned")
		}
	})
}

// The renewal whose answer was lost has prolonged the lease, so that it lives for longer than the
// last answer promised.
func TestResignReleasesALeaseThatAnUnansweredRenewalProlonged(t *testing.T) {
	for name, lost := range map[string]pgfake.Trouble{
		"answer lost":      {Loses: pgfake.ErrReset},
		"answer swallowed": {Swallows: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				p := start(t, tb, Config{})
				elected := time.Now()
				term := p.mustLead(t, "report")
				p.path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
					if s.Nth == 1 {
						return lost
					}
					return pgfake.Trouble{Fails: pgfake.ErrReset}
				})
				<-term.Context().Done()
				time.Sleep(time.Until(elected.Add(p.ttl + time.Second)))
				if !tb.Live("report") {
					t.Fatal("the lease is over, the test shows nothing")
				}
				p.path.Suffer(nil)
				mustResign(t, term)
				if tb.Live("report") {
					t.Error("Resign = nil, and the lease lives on")
				}
			})
		})
	}
}

func TestRenewalUnderWayDoesNotUndoAResignation(t *testing.T) {
	for name, slow := range map[string]pgfake.Trouble{
		"before the release": {Slow: 2 * time.Second},
		"after the release":  {Late: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				p := start(t, tb, Config{})
				term := p.mustLead(t, "report")
				p.path.Suffer(pgfake.Only(pgfake.KindRenewOne, slow))
				time.Sleep(p.renewEvery + time.Second)
				mustResign(t, term)
				time.Sleep(p.callLimit)
				if tb.Live("report") {
					t.Error("the lease lives again")
				}
				if n := len(p.reported(EventLost)); n != 0 {
					t.Error("a resigned term was reported as lost")
				}
			})
		})
	}
}

// A process that has resigned can be elected again, while its resignation has not come through.
func TestTermAfterAFailedResignHasANewToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, Config{})
		old := p.mustLead(t, "report")
		p.path.Suffer(pgfake.Only(pgfake.KindRelease, pgfake.Trouble{Fails: pgfake.ServerError("42501")}))
		if err := old.Resign(); err == nil {
			t.Fatal("Resign = nil")
		}
		term := p.mustLead(t, "report")
		if term.Token() != old.Token()+1 {
			t.Errorf("token %d follows %d", term.Token(), old.Token())
		}
		p.path.Suffer(nil)
		_ = old.Resign()
		if !tb.Live("report") || term.Context().Err() != nil {
			t.Error("the old term's resignation ended the new one")
		}
		mustResign(t, term)
	})
}

// A term that is resigned in the same moment in which it is found lost has one end, and its cause
// and its report agree.
func TestTermThatIsResignedAndLostAtOnceEndsOnce(t *testing.T) {
	p := newProcess(t, pgfake.NewTable(), Config{})
	for range 5000 {
		term := p.mustLead(t, "report")
		var both sync.WaitGroup
		both.Go(func() { p.watchdog.lose(errTaken, term) })
		both.Go(func() { mustResign(t, term) })
		both.Wait()
		p.mu.Lock()
		ends := p.events[1:]
		p.events = nil
		p.mu.Unlock()
		want := EventResigned
		if errors.Is(context.Cause(term.Context()), ErrLost) {
			want = EventLost
		}
		if len(ends) != 1 || ends[0].Kind != want {
			t.Fatalf("token %d: reported %+v, the context's cause is %v",
				term.Token(), ends, context.Cause(term.Context()))
		}
	}
}

// A connection is given back whatever became of the call.
func TestEveryConnectionIsGivenBack(t *testing.T) {
	tb := pgfake.NewTable()
	p := newProcess(t, tb, Config{})
	for range 1000 {
		term, err := p.Campaign(t.Context(), "report")
		if err != nil {
			t.Fatal(err)
		}
		if err := term.Resign(); err != nil {
			t.Fatal(err)
		}
	}
	if lent, token := p.path.Kept(), tb.Row("report").Token; lent != 0 || token != 1000 {
		t.Errorf("%d connections are not given back, token %d", lent, token)
	}
	p.checkPairs(t)
}

package leader

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/internal/pgfake"
)

// Between the answer to its claim and its use a process may be paused, here by its own OnEvent.
func TestElectionThatIsOverBeforeItIsUsedIsNotHandedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p, successor := start(t, tb, Config{}), start(t, tb, Config{})
		record := p.onEvent
		var once sync.Once
		p.onEvent = func(event Event) {
			record(event)
			if event.Kind == EventElected {
				once.Do(func() { time.Sleep(20 * time.Second) })
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		terms := make(chan *Term, 1)
		go func() {
			term, err := p.Campaign(ctx, "report")
			if err == nil {
				terms <- term
			}
			close(terms)
		}()
		time.Sleep(16 * time.Second)
		other := successor.mustLead(t, "report")
		if term := <-terms; term != nil {
			t.Errorf("the term with token %d is handed out while the one with token %d leads",
				term.Token(), other.Token())
		}
		mustResign(t, other)
	})
}

func TestTermIsKeptWhileEveryStatementAnswersWithinItsTime(t *testing.T) {
	for _, tt := range []struct {
		name       string
		renewEvery time.Duration
		slow       time.Duration
	}{
		{"default interval", 0, 4500 * time.Millisecond},
		{"longest interval", 8500 * time.Millisecond, 3 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t, pgfake.NewTable(), Config{RenewEvery: tt.renewEvery})
				// The claim too: it must not push the first renewal out.
				p.path.Suffer(pgfake.Always(pgfake.Trouble{Slow: tt.slow}))
				term := p.mustLead(t, "report")
				time.Sleep(5 * time.Minute)
				if err := context.Cause(term.Context()); err != nil {
					t.Errorf("the term is over: %v", err)
				}
				p.path.Suffer(nil)
				mustResign(t, term)
			})
		})
	}
}

func TestWaitForATurnDoesNotEatTheTrustWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, pgfake.NewTable(), Config{})
		p.path.Suffer(pgfake.Only(pgfake.KindAcquire, pgfake.Trouble{Slow: 3 * time.Second}))
		terms := make([]*Term, 60) // by eights: the last ones wait for much longer than the TTL
		var wg sync.WaitGroup
		for i := range terms {
			wg.Go(func() {
				var err error
				if terms[i], err = p.Campaign(t.Context(), fmt.Sprint("job ", i)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		time.Sleep(time.Minute)
		if lost := p.reported(EventLost); len(lost) > 0 {
			t.Errorf("%d terms were lost: %v", len(lost), lost[0].Err)
		}
		mustResign(t, terms...)
	})
}

func TestWakeDuringAClaimIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		tb.Put("report", "another", time.Hour)
		p := start(t, tb, Config{RetryEvery: time.Hour})
		p.path.Suffer(pgfake.Only(pgfake.KindAcquire, pgfake.Trouble{Slow: time.Second}))
		began := time.Now()
		time.AfterFunc(500*time.Millisecond, func() {
			tb.Free("report")
			p.Wake("report")
		})
		term, err := p.Campaign(t.Context(), "report")
		if err != nil {
			t.Fatal(err)
		}
		after(t, began, 2*time.Second, "elected by a second claim")
		p.path.Suffer(nil)
		mustResign(t, term)
	})
}

func TestSuspendedMachineWithALongTTLLosesItsTermWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, Config{TTL: 24 * time.Hour})
		wall := p.setWall()
		term := p.mustLead(t, "report")
		time.Sleep(time.Minute)
		suspend(tb, wall, 48*time.Hour)
		woke := time.Now()
		<-term.Context().Done()
		within(t, woke, time.Second, "the term ended")
	})
}

func TestPanicInOnEventLeavesTheJobFree(t *testing.T) {
	for name, claim := range map[string]func(context.Context, *process) error{
		"TryAcquire": func(ctx context.Context, p *process) error {
			_, _, err := p.TryAcquire(ctx, "report")
			return err
		},
		"Campaign": func(ctx context.Context, p *process) error {
			_, err := p.Campaign(ctx, "report")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProcess(t, pgfake.NewTable(), Config{})
				panics := true
				p.onEvent = func(Event) {
					if panics {
						panics = false
						panic("metrics")
					}
				}
				func() {
					defer func() {
						if recover() == nil {
							t.Error("the panic did not reach the caller")
						}
					}()
					_ = claim(t.Context(), p)
				}()
				mustResign(t, p.mustLead(t, "report"))
			})
		})
	}
}

package leader

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/internal/pgfake"
)

func TestTermEndsEarlierByTheTimeThatWorkNeedsToStop(t *testing.T) {
	for _, stop := range []time.Duration{0, time.Second, 3 * time.Second} {
		t.Run(stop.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t, pgfake.NewTable(), Config{StopWithin: stop}) // a TTL of 15 s, a margin of 1.5 s
				began := time.Now()
				term := p.mustLead(t, "report")
				want := 15*time.Second - 1500*time.Millisecond - stop
				if until := term.Until(); until.Sub(began) != want {
					t.Errorf("Until is after %v, want %v", until.Sub(began), want)
				}
				p.path.Suffer(pgfake.Only(pgfake.KindRenewOne, pgfake.Trouble{Fails: pgfake.ErrReset}))
				<-term.Context().Done()
				after(t, began, want, "the end")
				if cause := context.Cause(term.Context()); !errors.Is(cause, ErrLost) {
					t.Errorf("cause %v", cause)
				}
			})
		})
	}
}

func TestRenewalMovesUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, pgfake.NewTable(), Config{})
		term := p.mustLead(t, "report")
		first := term.Until()
		time.Sleep(5*time.Second + time.Millisecond)
		if moved := term.Until().Sub(first); moved != 5*time.Second {
			t.Errorf("Until moved by %v with a renewal after 5 s", moved)
		}
		mustResign(t, term)
		if until := term.Until(); until.After(time.Now()) {
			t.Errorf("a term that was resigned ends in %v", time.Until(until))
		}
	})
}

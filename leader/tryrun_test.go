package leader

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/internal/pgfake"
)

var errBroken = errors.New("it went wrong")

func TestTryRunWorksUnderATermAndResignsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, Config{})
		ran, held, err := p.TryRun(t.Context(), "report", func(ctx context.Context, term *Term) error {
			if !tb.Live("report") || term.Err() != nil || ctx.Err() != nil {
				t.Errorf("the work runs without a lease: %v, %v", term.Err(), ctx.Err())
			}
			return errBroken
		})
		if !ran || held != (Lease{}) || err != errBroken { //nolint:errorlint // as it is
			t.Errorf("TryRun = %v, %+v, %v; want the work's error", ran, held, err)
		}
		if tb.Live("report") || len(p.reported(EventResigned)) != 1 {
			t.Error("the lease was not released")
		}
	})
}

func TestTryRunSaysWhoLeadsInstead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p, rival := start(t, tb, Config{}), start(t, tb, Config{})
		never := func(context.Context, *Term) error {
			t.Error("it works without leading")
			return nil
		}
		for _, leads := range []*process{rival, p} { // also if that is the caller's own process
			term := leads.mustLead(t, "report")
			ran, held, err := p.TryRun(t.Context(), "report", never)
			if ran || err != nil || held.Holder != leads.Holder() ||
				held.Token != term.Token() || !held.Live() {
				t.Errorf("TryRun = %v, %+v, %v; want the lease of %s", ran, held, err, leads.Holder())
			}
			mustResign(t, term)
		}
	})
}

func TestTryRunSaysThatItsTermWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, pgfake.NewTable(), Config{})
		ran, _, err := p.TryRun(t.Context(), "report", func(ctx context.Context, _ *Term) error {
			p.hangForEver()
			<-ctx.Done()
			return errBroken
		})
		if !ran || !errors.Is(err, ErrLost) || !errors.Is(err, errBroken) {
			t.Errorf("TryRun = %v, %v; want ErrLost beside the work's error", ran, err)
		}
	})
}

func TestTryRunAndRunNeverWorkAtOnceInOneProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, pgfake.NewTable(), Config{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		deaf := make(chan struct{})
		go func() {
			ended <- p.Run(ctx, "report", func(ctx context.Context, _ *Term) error {
				<-deaf // and not to its context
				return ctx.Err()
			})
		}()
		synctest.Wait()
		back := p.hangForEver()
		time.Sleep(p.ttl)
		back()
		time.Sleep(time.Minute)
		ran, held, err := p.TryRun(t.Context(), "report",
			func(context.Context, *Term) error { return nil })
		if ran || err != nil || held.Holder != p.Holder() {
			t.Errorf("TryRun = %v, %+v, %v while Run's work of a lost term goes on", ran, held, err)
		}
		cancel()
		close(deaf)
		<-ended
	})
}

func TestErrOfATermSaysWhyItIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, pgfake.NewTable(), Config{})
		term := p.mustLead(t, "report")
		if err := term.Err(); err != nil {
			t.Errorf("Err = %v of a live term", err)
		}
		mustResign(t, term)
		if err := term.Err(); !errors.Is(err, ErrLost) {
			t.Errorf("Err = %v of a resigned term, want ErrLost", err)
		}

		// The machine was suspended: the wall clock went on, and no timer has run.
		term = p.mustLead(t, "report")
		slept := p.wall
		p.wall = func() time.Time { return slept().Add(p.ttl) }
		if err := term.Err(); !errors.Is(err, errTrustEnded) {
			t.Errorf("Err = %v after a pause, want %v", err, errTrustEnded)
		}
		if n := len(p.reported(EventLost)); n != 1 {
			t.Errorf("%d losses were reported, want 1", n)
		}
		mustResign(t, term)
	})
}

func TestDismissalWhoseAnswerIsLostHitsNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		leads, operator := start(t, tb, Config{}), start(t, tb, Config{})
		term := leads.mustLead(t, "report")
		operator.path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
			if s.Kind == pgfake.KindDismiss && s.Nth == 1 {
				return pgfake.Trouble{Loses: pgfake.ErrReset}
			}
			return pgfake.Trouble{}
		})
		lease, err := operator.Dismiss(t.Context(), "report")
		if err != nil || lease.Token != term.Token() || lease.Holder != leads.Holder() {
			t.Errorf("Dismiss = %+v, %v; want the lease as it was", lease, err)
		}
		if row := tb.Row("report"); row.Token != term.Token()+1 {
			t.Errorf("the token is %d, want %d: it was dismissed twice", row.Token, term.Token()+1)
		}
		lease, err = operator.Dismiss(t.Context(), "report")
		if err != nil || !lease.Dismissed() || tb.Row("report").Token != term.Token()+1 {
			t.Errorf("a second Dismiss = %+v, %v; want the dismissed lease, as it is", lease, err)
		}
		<-term.Context().Done()
		mustResign(t, term)
	})
}

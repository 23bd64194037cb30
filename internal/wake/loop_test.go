package wake

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A script is a driver whose connections last as long as the script says; 0 is one that fails.
type script struct {
	lasts    []time.Duration
	attempts []time.Time
}

func (s *script) driver() Driver {
	return Driver{
		Name:    "scripted",
		Connect: s.connect,
		Limit:   time.Hour,
		Advice:  func(error) string { return "" },
	}
}

func (s *script) connect(context.Context) (Session, error) {
	s.attempts = append(s.attempts, time.Now())
	lasts := time.Duration(0)
	if len(s.lasts) > 0 {
		lasts, s.lasts = s.lasts[0], s.lasts[1:]
	}
	if lasts == 0 {
		return nil, errors.New("down")
	}
	return scripted(lasts), nil
}

type scripted time.Duration

func (s scripted) Receive(ctx context.Context, _ func(string)) error {
	select {
	case <-time.After(time.Duration(s)):
		return errors.New("lost")
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (scripted) Close() {}

// run listens for a while, and returns when the attempts to connect were, and what was reported.
func (s *script) run(t *testing.T, limit time.Duration) (at []time.Duration, reported int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	begun := time.Now()
	err := Listen(ctx, Config{
		Wake:    func(string) {},
		Logger:  slog.New(slog.DiscardHandler),
		OnError: func(error) { reported++ },
	}, s.driver())
	if took := time.Since(begun); !errors.Is(err, context.DeadlineExceeded) || took != limit {
		t.Errorf("Listen = %v after %v, want the context's error after %v", err, took, limit)
	}
	for _, attempt := range s.attempts {
		at = append(at, attempt.Sub(begun))
	}
	return at, reported
}

func TestPausesGrowWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at, reported := new(script).run(t, 100*time.Second)
		const ms = time.Millisecond
		want := []time.Duration{
			0, 200 * ms, 600 * ms, 1400 * ms, 3000 * ms, 6200 * ms, 12600 * ms,
			25400 * ms, 51000 * ms, 81000 * ms,
		}
		if !slices.Equal(at, want) || reported != 1 {
			t.Errorf("%d reports of attempts at %v, want one of %v", reported, at, want)
		}
	})
}

// A server that ends every session at once must fill no log and get no login every 200 ms.
func TestPausesGrowWhileConnectionsDoNotLast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{lasts: slices.Repeat([]time.Duration{time.Second}, 100)}
		at, reported := s.run(t, 70*time.Second)
		if len(at) != 9 || reported != 9 {
			t.Errorf("%d reports of attempts at %v, want 9 of 9", reported, at)
		}
	})
}

func TestPauseIsShortAfterAConnectionThatLasted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{lasts: []time.Duration{0, 0, 0, time.Minute, time.Hour}}
		at, reported := s.run(t, 2*time.Minute)
		if pause := at[4] - at[3] - time.Minute; pause != minBackoff || len(at) != 5 || reported != 2 {
			t.Errorf("%d reports, a pause of %v; want 2, %v", reported, pause, minBackoff)
		}
	})
}

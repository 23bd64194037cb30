package main

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

func newElector(t *testing.T, rawURL string) *leader.Elector {
	t.Helper()
	elector, err := leader.New(pgtest.Open(t, "pgx", rawURL), leader.Config{
		TTL: 2 * time.Second, RetryEvery: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return elector
}

func mustRun(t *testing.T, args ...string) {
	t.Helper()
	_, status, _ := start(t.Context(), t, args...)
	if code := <-status; code != 0 {
		t.Fatalf("%v: exit status %d", args, code)
	}
}

func TestDismissLetsNobodyLeadBeforeTheOldLeaderKnows(t *testing.T) {
	t.Parallel()
	rawURL := pgtest.NewURL(t)
	first, second := newElector(t, rawURL), newElector(t, rawURL)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	term, ok, err := first.TryAcquire(ctx, "nightly-report")
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	mustRun(t, "dismiss", "nightly-report", "--database-url", rawURL)
	next, err := second.Campaign(ctx, "nightly-report")
	if err != nil {
		t.Fatal(err)
	}
	defer next.Resign()
	if cause := context.Cause(term.Context()); !errors.Is(cause, leader.ErrLost) {
		t.Errorf("a successor leads and the old term's cause is %v, want ErrLost", cause)
	}
	if next.Token() != term.Token()+2 {
		t.Errorf("token %d after %d and the operator's own", next.Token(), term.Token())
	}
}

func TestRerunIsDoneByTheNextCall(t *testing.T) {
	t.Parallel()
	rawURL := pgtest.NewURL(t)
	elector := newElector(t, rawURL)
	slot := time.Date(2026, 1, 2, 2, 0, 0, 0, time.UTC)
	attempts := 0
	call := func() {
		t.Helper()
		scheduler, err := schedule.New(elector, schedule.Config{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = scheduler.RunSlot(t.Context(), "nightly-report", slot,
			func(_ context.Context, s *schedule.Slot) error {
				attempts = s.Attempt()
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
	}
	call()
	call()
	if attempts != 1 {
		t.Fatalf("attempt %d before anybody asked for another", attempts)
	}
	mustRun(t, "rerun", "nightly-report", "latest", "--database-url", rawURL)
	call()
	if attempts != 2 {
		t.Errorf("attempt %d after a rerun", attempts)
	}
}

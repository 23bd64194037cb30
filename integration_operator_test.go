package pgleader_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

// The statement is taken from docs/operations.md, so that what an operator copies is what was tested.
func TestOperatorTakesLeaseAwayWithoutOverlap(t *testing.T) {
	text, err := os.ReadFile("docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	statement := regexp.MustCompile(`UPDATE leader_lease SET holder = 'operator'[^;]*`).FindString(string(text))
	if statement == "" {
		t.Fatal("docs/operations.md no longer has the statement that takes a lease away")
	}
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		cfg := leader.Config{TTL: 2 * time.Second, RetryEvery: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}
		first, err := leader.New(pool, cfg)
		if err != nil {
			t.Fatal(err)
		}
		second, err := leader.New(pool, cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		term, ok, err := first.TryAcquire(ctx, "nightly-report")
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		if _, err := pool.ExecContext(ctx, statement); err != nil {
			t.Fatal(err)
		}
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
	})
}

package pgleader_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(processEnv); text != "" {
		runProgram(text)
	}
	pgtest.Main(m)
}

// forEachDriver runs a test over lib/pq and over pgx, each on a fresh database, and through PgBouncer if PGLEADER_PGBOUNCER says so.
func forEachDriver(t *testing.T, test func(t *testing.T, driver, url string)) {
	t.Helper()
	for _, driver := range pgtest.Drivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			url := pgtest.NewURL(t)
			if mode := pgtest.Pooled(); mode != "" {
				url = throughPooler(t, url, mode)
			}
			test(t, driver, url)
		})
	}
}

func TestOneOfThreeLeadsAndAnotherFollowsItsResignation(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		terms := make(chan *leader.Term, 3)
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		for range 3 {
			e := newElector(t, pool, leader.Config{TTL: 10 * time.Second, RetryEvery: 50 * time.Millisecond})
			go func() {
				term, err := e.Campaign(ctx, "nightly-report")
				if err != nil {
					t.Error(err)
				}
				terms <- term
			}()
		}
		for token := int64(1); token <= 3; token++ {
			term := <-terms
			if term.Token() != token {
				t.Errorf("token %d, want %d", term.Token(), token)
			}
			if err := term.Resign(); err != nil {
				t.Error(err)
			}
		}
	})
}

package contract_test

import (
	"context"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

func TestKilledLeaderIsSucceededAfterItsTTL(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		p := start(t, order{Program: "lead", Driver: driver, URL: url, Job: job, TTL: 2 * time.Second})
		p.says(t, "elected 1")
		eventuallyRenewed(t, pool, job, 1)
		refused(t, newElector(t, pool, slow), job)
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		receive(t, "the end of the process", p.done)
		end := expiresAt(t, pool)
		next := campaign(t, newElector(t, pool, slow), job)
		if next.Token() != 2 {
			t.Errorf("token %d, want 2", next.Token())
		}
		if began := scan[time.Time](t, pool, `SELECT acquired_at FROM leader_lease`); began.Before(end) {
			t.Errorf("the successor leads from %v on, while the lease lasts until %v", began, end)
		}
	})
}

func TestLeaderIsFoundAfterEachOfHundredLosses(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool, admin := openPair(t, driver, url)
		ctx, cancel := context.WithCancel(t.Context())
		terms := make(chan *leader.Term, 10)
		ended := make(chan error, 2)
		cfg := leader.Config{
			TTL: 30 * time.Second, RenewEvery: 10 * time.Millisecond, RetryEvery: 10 * time.Millisecond,
		}
		for range 2 {
			e := newElector(t, pool, cfg)
			go func() {
				ended <- e.Run(ctx, job, func(ctx context.Context, term *leader.Term) error {
					terms <- term
					<-ctx.Done()
					return nil
				})
			}()
		}
		for n := range 101 {
			term := receive(t, "an election", terms)
			if term.Token() != int64(n+1) {
				t.Errorf("token %d, want %d", term.Token(), n+1)
			}
			if n < 100 {
				expire(t, admin, job)
				endsWithLoss(t, term)
			}
		}
		cancel()
		for range 2 {
			_ = receive(t, "the end of Run", ended)
		}
	})
}

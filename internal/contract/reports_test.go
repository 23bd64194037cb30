package contract_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

func TestLosersLogWhoHoldsTheLease(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		winner := newElector(t, pool, slow)
		acquire(t, winner, job)
		var lines logLines
		cfg := slow
		cfg.Logger = slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelDebug}))
		loser := newElector(t, pool, cfg)
		refused(t, loser, job)
		if want := "skipped, held by " + winner.Holder(); !lines.contain(want) {
			t.Errorf("no line says %q:\n%s", want, lines.text.String())
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { _, err := loser.Campaign(ctx, job); ended <- err }()
		eventually(t, "a line about whom the candidate waits for", func() bool {
			return lines.contain("waiting, held by " + winner.Holder())
		})
		cancel()
		_ = receive(t, "the end of the campaign", ended)
	})
}

// logLines is a slog handler's output that can be read while it is written to.
type logLines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logLines) contain(s string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), s)
}

func TestObserveYieldsElectionResignationAndExpiry(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool, admin := openPair(t, driver, url)
		a := newElector(t, pool, quick)
		leases := make(chan leader.Lease, 100)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for lease, err := range newElector(t, pool, quick).Observe(ctx, job) {
				if err == nil {
					leases <- lease
				} else if ctx.Err() == nil {
					t.Error(err)
				}
			}
		}()
		expect := func(token int64, live bool) {
			t.Helper()
			l := receive(t, "a change", leases)
			if l.Job != job || l.Token != token || l.Live() != live || live && l.Holder != a.Holder() {
				t.Errorf("observed %+v, want token %d, live %v", l, token, live)
			}
		}
		expect(0, false)
		term := acquire(t, a, job)
		expect(1, true)
		eventuallyRenewed(t, admin, job, 3) // no change
		resign(t, term)
		expect(1, false)
		acquire(t, a, job)
		expect(2, true)
		expire(t, admin, job)
		expect(2, false)
		cancel()
		receive(t, "the end of Observe", ended)
	})
}

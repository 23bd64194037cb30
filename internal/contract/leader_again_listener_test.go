package contract_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/leader/pgxwake"
	"github.com/pgleader/pgleader/leader/pqwake"
)

func TestReleaseWakesACandidateThatWouldLookInAnHour(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		first := acquire(t, newElector(t, pool, patientCandidate), job)
		waiting, waits := candidate(t, pool)
		listen(t, driver, direct(url), waiting.Wake)
		elected := campaigning(t, waiting, job)
		waits()
		resign(t, first)
		term := receive(t, "the candidate to be elected", elected)
		resign(t, term)
	})
}

// lib/pq#343, sqlx#447: what was notified while the listener was away is lost. It wakes everyone
// when it is back.
func TestReleaseThatAKilledListenerMissesIsFoundWhenItIsBack(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		proxy := pgtest.NewProxy(t, url)
		first := acquire(t, newElector(t, pool, patientCandidate), job)
		waiting, waits := candidate(t, pool)
		log := listen(t, driver, proxy.URL, waiting.Wake)
		elected := campaigning(t, waiting, job)
		waits()
		woken := log.count("")
		proxy.Cut()
		resign(t, first) // nobody hears it
		if err := proxy.Restore(); err != nil {
			t.Fatal(err)
		}
		term := receive(t, "the candidate to be elected", elected)
		if log.count("") == woken {
			t.Error("it was elected without the listener's help")
		}
		resign(t, term)
	})
}

func TestCandidateWithoutAListenerLooksWithinItsInterval(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		proxy := pgtest.NewProxy(t, url)
		cfg := leader.Config{TTL: time.Hour, RetryEvery: 100 * time.Millisecond}
		first := acquire(t, newElector(t, pool, cfg), job)
		waiting := newElector(t, pool, cfg)
		listen(t, driver, proxy.URL, waiting.Wake)
		elected := campaigning(t, waiting, job)
		proxy.Cut() // and it stays cut
		resign(t, first)
		resign(t, receive(t, "the candidate to be elected", elected))
	})
}

func TestTakeoverNotifiesAndARenewalDoesNot(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		log := listen(t, driver, direct(url), nil)
		term := acquire(t, newElector(t, pool, quick), job)
		eventually(t, "the notice of the first term", func() bool { return log.count(job) == 1 })
		eventuallyRenewed(t, pool, job, 5)
		resign(t, term)
		eventually(t, "the notice of the release", func() bool { return log.count(job) >= 2 })
		next := acquire(t, newElector(t, pool, quick), job)
		eventually(t, "the notice of the second term", func() bool { return log.count(job) >= 3 })
		eventuallyRenewed(t, pool, job, 5)
		if n := log.count(job); n != 3 {
			t.Errorf("%d notices of two terms and one release, want 3: renewals must not notify", n)
		}
		resign(t, next)
	})
}

// A listener whose server is away tries again at growing intervals.
func TestListenerWithoutAServerDoesNotSpin(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		proxy := pgtest.NewProxy(t, url)
		log := listen(t, driver, proxy.URL, nil)
		for range 3 {
			n := log.count("")
			proxy.Cut()
			if err := proxy.Restore(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the listener to be back", func() bool { return log.count("") > n })
		}
		if n := proxy.Connections(); n != 1 {
			t.Errorf("%d connections, want 1", n)
		}
		if n := log.count(""); n > 10 {
			t.Errorf("it woke everyone %d times in 3 outages", n)
		}
	})
}

var listeners = map[string]func(context.Context, string, func(string)) error{
	"postgres": func(ctx context.Context, url string, wake func(string)) error {
		return pqwake.Listen(ctx, pqwake.Config{URL: url, Wake: wake})
	},
	"pgx": func(ctx context.Context, url string, wake func(string)) error {
		return pgxwake.Listen(ctx, pgxwake.Config{URL: url, Wake: wake})
	},
}

// listen starts the driver's listener, and waits until it listens. It checks that the listener ends
// with its context.
func listen(t *testing.T, driver, url string, wake func(string)) *wakeLog {
	t.Helper()
	log := &wakeLog{wake: wake}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- listeners[driver](ctx, url, log.Wake) }()
	t.Cleanup(func() {
		stop()
		if err := receive(t, "the listener to end", ended); !errors.Is(err, context.Canceled) {
			t.Errorf("the listener ended with %v, want the context's error", err)
		}
	})
	eventually(t, "the listener to listen", func() bool { return log.count("") > 0 })
	return log
}

// A wakeLog notes what Wake was called with.
type wakeLog struct {
	mu   sync.Mutex
	jobs []string
	wake func(string)
}

func (l *wakeLog) Wake(job string) {
	l.mu.Lock()
	l.jobs = append(l.jobs, job)
	l.mu.Unlock()
	if l.wake != nil {
		l.wake(job)
	}
}

func (l *wakeLog) count(job string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, j := range l.jobs {
		if j == job {
			n++
		}
	}
	return n
}

// patientCandidate looks once an hour unless something wakes it.
var patientCandidate = leader.Config{TTL: time.Hour, RetryEvery: time.Hour}

// candidate makes an elector that looks once an hour unless something wakes it, and a function that
// waits until it has been told who leads.
func candidate(t *testing.T, pool *sql.DB) (e *leader.Elector, waits func()) {
	t.Helper()
	var seen events
	cfg := patientCandidate
	cfg.OnEvent = seen.add
	return newElector(t, pool, cfg), func() {
		t.Helper()
		eventually(t, "the candidate to wait", func() bool {
			return len(seen.of(leader.EventWaiting)) > 0
		})
	}
}

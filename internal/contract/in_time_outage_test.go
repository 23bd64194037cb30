package contract_test

import (
	"context"
	"database/sql"
	"slices"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

func TestOutageLongerThanTTLEndsTermBeforeLease(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		proxy := pgtest.NewProxy(t, url)
		pool, admin := pgtest.Open(t, driver, proxy.URL), pgtest.Open(t, driver, url)
		e := newElector(t, pool, leader.Config{TTL: 5 * time.Second, RetryEvery: 50 * time.Millisecond})
		term := acquire(t, e, job)
		won := leadsAfter(t, term, admin)
		endsBeforeLease := watchEnd(t, term, admin)
		proxy.Cut()
		endsBeforeLease()
		next := receive(t, "the takeover", won)
		if err := proxy.Restore(); err != nil {
			t.Fatal(err)
		}
		resign(t, next)
		campaign(t, e, job) // without a restart
	})
}

func TestStarvedPoolEndsTermInTime(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool, admin := openPair(t, driver, url)
		pool.SetMaxOpenConns(2)
		e := newElector(t, pool, leader.Config{TTL: 5 * time.Second, RetryEvery: 50 * time.Millisecond})
		term := acquire(t, e, job)
		won := leadsAfter(t, term, admin)
		endsBeforeLease := watchEnd(t, term, admin)
		// The job's own work.
		one, two := begin(t, pool, sql.LevelDefault), begin(t, pool, sql.LevelDefault)
		endsBeforeLease()
		next := receive(t, "the takeover", won)
		rollback(t, one)
		rollback(t, two)
		resign(t, next)
		campaign(t, e, job)
	})
}

// leadsAfter is a channel of the elector's next term, after a check that the leader before knows of
// the end of its own.
func leadsAfter(t *testing.T, before *leader.Term, pool *sql.DB) <-chan *leader.Term {
	t.Helper()
	cfg := quick
	cfg.OnEvent = func(e leader.Event) {
		if e.Kind == leader.EventElected && before.Context().Err() == nil {
			t.Errorf("a successor was elected beside a leader that takes itself for one")
		}
	}
	return campaigning(t, newElector(t, pool, cfg), job)
}

// watchEnd notes when the term ends. The function that it returns waits for that, and compares it
// with the lease's end by the database's clock, which may differ from this machine's.
func watchEnd(t *testing.T, term *leader.Term, admin *sql.DB) (endsBeforeLease func()) {
	t.Helper()
	end := endOf(t, term, admin)
	return func() {
		t.Helper()
		at := end()
		// Or a successor has it already.
		endsBefore(t, at, scan[time.Time](t, admin, `
			SELECT CASE token WHEN $2 THEN expires_at ELSE acquired_at END
			FROM leader_lease WHERE job_name = $1`, term.Job(), term.Token()))
	}
}

func endsBefore(t *testing.T, end, lease time.Time) {
	t.Helper()
	if !end.Before(lease) {
		t.Errorf("the term ended %v after its lease", end.Sub(lease))
	}
}

// endOf waits until the term is lost, and tells when it was, by the database's clock.
func endOf(t *testing.T, term *leader.Term, admin *sql.DB) func() time.Time {
	t.Helper()
	var ahead []time.Duration // of the database's clock, and up to a round trip more
	for range 10 {
		asked := time.Now()
		ahead = append(ahead, databaseNow(t, admin).Sub(asked))
	}
	ended := make(chan time.Time, 1)
	context.AfterFunc(term.Context(), func() { ended <- time.Now() })
	return func() time.Time {
		t.Helper()
		endsWithLoss(t, term)
		return receive(t, "the end of the term", ended).Add(slices.Min(ahead))
	}
}

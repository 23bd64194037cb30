package contract_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

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

func TestTerminatedIdleLeaderIsSucceededAtOnce(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		p := start(t, order{Program: "lead", Driver: driver, URL: url, Job: job, TTL: 10 * time.Minute})
		p.says(t, "elected 1")
		var seen events
		cfg := leader.Config{TTL: 10 * time.Minute, OnEvent: seen.add} // looks every 1.5 s all the same
		won := campaigning(t, newElector(t, pool, cfg), job)
		eventually(t, "the follower waits", func() bool { return len(seen.of(leader.EventWaiting)) == 1 })
		sent := time.Now()
		p.signal(t, syscall.SIGTERM)
		next := receive(t, "the handover", won)
		// It takes up to 1.9 s on a machine that has time for it. The bound is there to tell that from
		// any share of the TTL.
		took := time.Since(sent)
		t.Logf("the handover took %v", took)
		if took > 10*time.Second {
			t.Errorf("the handover took %v", took)
		}
		p.says(t, "bye")
		p.exits(t)
		resign(t, next)
	})
}

// A resignation that failed is not forgotten: the same call again ends the lease.
func TestFailedResignationCanBeTriedAgain(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		admin := pgtest.Open(t, driver, direct(url))
		pool := pgtest.Open(t, driver, asNewRole(t, admin, url))
		mustExec(t, admin, `GRANT SELECT, INSERT, UPDATE ON leader_lease TO PUBLIC`)
		term := acquire(t, newElector(t, pool, slow), job)
		mustExec(t, admin, `REVOKE UPDATE ON leader_lease FROM PUBLIC`)
		for range 2 {
			if err := term.Resign(); sqlState(err) != "42501" {
				t.Fatalf("Resign = %v, want the server's refusal", err)
			}
			if term.Context().Err() == nil {
				t.Error("the term goes on after a failed resignation")
			}
		}
		successor := newElector(t, admin, slow)
		refused(t, successor, job)
		mustExec(t, admin, `GRANT UPDATE ON leader_lease TO PUBLIC`)
		resign(t, term)
		next := acquire(t, successor, job)
		resign(t, term) // and once it has succeeded, nothing
		stillLeads(t, next)
		refused(t, newElector(t, admin, slow), job)
	})
}

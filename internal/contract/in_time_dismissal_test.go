package contract_test

import (
	"context"
	"errors"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

func TestDismissedLeaderStepsDownBeforeAnybodyElseLeads(t *testing.T) {
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		cfg := leader.Config{TTL: 2 * time.Second, RetryEvery: 20 * time.Millisecond}
		term := acquire(t, newElector(t, pool, cfg), job)
		operator := newElector(t, pool, leader.Config{Holder: "operator"})
		was, err := operator.Dismiss(t.Context(), job)
		if err != nil || was.Token != term.Token() || was.Left <= 0 || was.Left > 2*time.Second {
			t.Fatalf("Dismiss = %+v, %v; want the lease as it was", was, err)
		}
		next := campaign(t, newElector(t, pool, cfg), job)
		if cause := context.Cause(term.Context()); !errors.Is(cause, leader.ErrLost) {
			t.Errorf("a successor leads and the old term's cause is %v, want ErrLost", cause)
		}
		began := scan[time.Time](t, pool, `SELECT acquired_at FROM leader_lease`)
		if began.Before(was.ExpiresAt) {
			t.Errorf("the successor began at %v, before the old lease would have expired at %v",
				began, was.ExpiresAt)
		}
		if next.Token() != term.Token()+2 {
			t.Errorf("token %d after %d and the operator's own", next.Token(), term.Token())
		}
		resign(t, next)
		if _, err := operator.Dismiss(t.Context(), job); !errors.Is(err, leader.ErrNotLed) {
			t.Errorf("Dismiss without a leader: %v, want ErrNotLed", err)
		}
		if _, err := operator.Dismiss(t.Context(), "never led"); !errors.Is(err, leader.ErrNotLed) {
			t.Errorf("Dismiss of a job that was never led: %v, want ErrNotLed", err)
		}
	})
}

// The statement is taken from docs/operations.md, so that what an operator copies is what was
// tested.
func TestOperatorTakesLeaseAwayWithoutOverlap(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	takeAway := regexp.MustCompile(`UPDATE leader_lease SET holder = 'operator'[^;]*`)
	statement := takeAway.FindString(string(text))
	if statement == "" {
		t.Fatal("docs/operations.md no longer has the statement that takes a lease away")
	}
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		cfg := leader.Config{TTL: 2 * time.Second, RetryEvery: 20 * time.Millisecond}
		term := acquire(t, newElector(t, pool, cfg), job)
		mustExec(t, pool, statement)
		next := campaign(t, newElector(t, pool, cfg), job)
		if cause := context.Cause(term.Context()); !errors.Is(cause, leader.ErrLost) {
			t.Errorf("a successor leads and the old term's cause is %v, want ErrLost", cause)
		}
		if next.Token() != term.Token()+2 {
			t.Errorf("token %d after %d and the operator's own", next.Token(), term.Token())
		}
	})
}

// The network delivers a dismissal again, when a successor leads.
func TestLateDismissalLeavesSuccessorAlone(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool, admin := openPair(t, driver, url)
		term := acquire(t, newElector(t, pool, slow), job)
		dismissal := db.DismissLeaseParams{JobName: job, DismissedBy: "operator", Token: term.Token()}
		if n, err := db.New(pool).DismissLease(t.Context(), dismissal); n != 1 || err != nil {
			t.Fatalf("DismissLease = %d, %v", n, err)
		}
		for _, successor := range []string{"nobody yet", "the next leader"} {
			before := row(t, admin)
			if n, err := db.New(pool).DismissLease(t.Context(), dismissal); n != 0 || err != nil {
				t.Errorf("%s: a late DismissLease = %d, %v", successor, n, err)
			}
			if after := row(t, admin); after != before {
				t.Errorf("%s: the row was %s and is %s", successor, before, after)
			}
			expire(t, admin, job)
			acquire(t, newElector(t, pool, slow), job)
		}
	})
}

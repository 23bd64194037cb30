package contract_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

// A database whose default is stricter than READ COMMITTED makes concurrent statements fail with
// SQLSTATE 40001. That must never reach the caller as an error, nor cost a lease.
func TestUnderEveryDefaultIsolation(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"read committed", "repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			forEachDriver(t, func(t *testing.T, driver, url string) {
				admin := pgtest.Open(t, driver, direct(url))
				alterDatabase(t, admin, `SET default_transaction_isolation = '`+level+`'`)
				t.Run("TheWholeContractHolds", func(t *testing.T) {
					wholeContractHolds(t, driver, url)
				})
				t.Run("OfTwoAttemptsAtOnceOneWinsAndNoneFails", func(t *testing.T) {
					ofTwoAttemptsAtOnceOneWinsAndNoneFails(t, driver, url)
				})
			})
		})
	}
}

func wholeContractHolds(t *testing.T, driver, url string) {
	pool, admin := openPair(t, driver, url)
	var seen events
	cfg := quick
	cfg.OnEvent = seen.add
	a, b := newElector(t, pool, cfg), newElector(t, pool, quick)

	first := acquire(t, a, job)
	refused(t, b, job)
	eventuallyRenewed(t, admin, job, 3)
	second := acquire(t, a, "another job") // from here on they are renewed together
	eventuallyRenewed(t, admin, job, 3)
	eventuallyRenewed(t, admin, "another job", 3)

	expire(t, admin, job)
	endsWithLoss(t, first)
	eventually(t, "a report of the loss", func() bool { return len(seen.of(leader.EventLost)) == 1 })
	next := campaign(t, b, job)
	if next.Token() != first.Token()+1 {
		t.Errorf("token %d after %d", next.Token(), first.Token())
	}
	resign(t, next)
	if term := acquire(t, a, job); term.Token() != next.Token()+1 {
		t.Errorf("token %d after %d", term.Token(), next.Token())
	}
	stillLeads(t, second)
	resign(t, second)
	leases, err := a.Leases(t.Context())
	if err != nil || len(leases) != 2 ||
		leases[0].Job != "another job" || leases[0].Live() || !leases[1].Live() {
		t.Errorf("Leases = %+v, %v; want the resigned job, then the led one", leases, err)
	}
}

func ofTwoAttemptsAtOnceOneWinsAndNoneFails(t *testing.T, driver, url string) {
	const rivals = 2
	pool, admin := openPair(t, driver, url)
	pool.SetMaxOpenConns(rivals)
	pool.SetMaxIdleConns(rivals)
	electors := make([]*leader.Elector, rivals)
	for i := range electors {
		electors[i] = newElector(t, pool, slow)
	}
	for round := range 40 {
		job := fmt.Sprint("job ", round/4) // an absent row, then a row that has expired
		if round%4 > 0 {
			expire(t, admin, job)
		}
		var wg sync.WaitGroup
		var mu sync.Mutex
		var winners []int64
		start := make(chan struct{})
		for _, e := range electors {
			wg.Go(func() {
				<-start
				term, ok, err := e.TryAcquire(context.Background(), job)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err != nil:
					t.Errorf("round %d: %v", round, err)
				case ok:
					winners = append(winners, term.Token())
				}
			})
		}
		close(start)
		wg.Wait()
		if len(winners) != 1 || winners[0] != int64(round%4+1) {
			t.Fatalf("round %d: the winners' tokens are %v, want one with %d", round, winners, round%4+1)
		}
		for i := range electors { // the winner still holds its term; new electors do not
			electors[i] = newElector(t, pool, slow)
		}
	}
}

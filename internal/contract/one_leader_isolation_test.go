package contract_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pgleader/pgleader/db"
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
				t.Run("NoLeaseVanishesFromALookWhileItChanges", func(t *testing.T) {
					noLeaseVanishesFromALookWhileItChanges(t, driver, url)
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

// A look finds the places of the rows first, and then reads them there, while renewals, takeovers
// and a vacuum move them.
func noLeaseVanishesFromALookWhileItChanges(t *testing.T, driver, url string) {
	const leases, looks = 30, 300
	pool, admin := openPair(t, driver, url)
	pool.SetMaxIdleConns(8)
	queries := db.New(pool)
	jobs := make([]string, leases)
	tokens := make([]atomic.Int64, leases)
	for i := range jobs {
		jobs[i] = fmt.Sprint("looked at ", i)
		row, err := queries.AcquireLease(t.Context(), claimOf("holder", jobs[i], 3600))
		if err != nil {
			t.Fatal(err)
		}
		tokens[i].Store(row.Token)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	var changes atomic.Int64
	for range 3 {
		all.Go(func() { // what the server gives up is tried on another lease
			for ctx.Err() == nil {
				i := rand.N(leases)
				known := tokens[i].Load()
				renewal := renewalOf("holder", jobs[i], known, 3600)
				if n, err := queries.RenewLease(ctx, renewal); err == nil {
					changes.Add(n)
				}
				claim := claimOf("holder", jobs[i], 3600)
				claim.KnownToken = known
				if row, err := queries.AcquireLease(ctx, claim); err == nil && row.Acquired {
					tokens[i].Store(row.Token)
					changes.Add(1)
				}
			}
		})
	}
	all.Go(func() {
		for ctx.Err() == nil {
			_, _ = admin.ExecContext(ctx, `VACUUM leader_lease`)
		}
	})
	text, err := json.Marshal(jobs)
	if err != nil {
		t.Fatal(err)
	}
	for look := range looks {
		rows, err := queries.LookLeases(ctx, string(text))
		if sqlState(err) == "40001" {
			continue
		}
		found := make(map[string]bool)
		for _, row := range rows {
			found[row.LeaderLease.JobName] = true
		}
		if err != nil || len(rows) != leases || len(found) != leases {
			t.Fatalf("look %d: %d rows of %d leases, %v; want %d", look, len(rows), len(found), err, leases)
		}
	}
	if changes.Load() < looks/10 {
		t.Errorf("%d changes during %d looks, the test shows little", changes.Load(), looks)
	}
}

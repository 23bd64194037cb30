package leader

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/internal/pgfake"
)

// A service dismisses the leader of a job for which it is a candidate itself. The old leader's
// network is silent, so that it learns nothing of it.
func TestCandidateThatDismissesTheLeaderWaitsForItsLeaseToExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		old, candidate := start(t, tb, Config{}), start(t, tb, Config{})
		began := time.Now()
		term := old.mustLead(t, "report")
		old.hangForEver()
		elected := make(chan *Term, 1)
		go func() {
			next, err := candidate.Campaign(context.Background(), "report")
			if err != nil {
				t.Error(err)
			}
			elected <- next
		}()
		time.Sleep(time.Second)
		if _, err := candidate.Dismiss(t.Context(), "report"); err != nil {
			t.Fatal(err)
		}
		leases, err := candidate.Leases(t.Context())
		if err != nil || len(leases) != 1 || !leases[0].Live() || !leases[0].Dismissed() {
			t.Errorf("%+v, %v; want a live lease that was dismissed", leases, err)
		}
		next := <-elected
		if leases, err = candidate.Leases(t.Context()); err != nil || leases[0].Dismissed() {
			t.Errorf("%+v, %v; want the candidate's lease", leases, err)
		}
		if term.Context().Err() == nil {
			t.Errorf("the candidate leads after %v, the old leader believes in its term until %v",
				time.Since(began), term.Until())
		}
		if led := time.Since(began); led < 15*time.Second || led > 17*time.Second {
			t.Errorf("the candidate leads after %v, want when the lease of 15 s has expired", led)
		}
		mustResign(t, next)
	})
}

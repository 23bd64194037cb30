package contract_test

import (
	"context"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
)

// The caller has gone: if the driver comes back to life later, the job must not be taken in its
// name.
func TestClaimGivenUpIsNotMadeWhenThePathIsBack(t *testing.T) {
	t.Parallel()
	withEachDriver(t, func(t *testing.T, driver, url string) {
		const job = "nightly-report"
		j := keepJournal(t, url)
		proxy := pgtest.NewProxy(t, url)
		pool := pgtest.Open(t, driver, proxy.URL)
		e := newElector(t, pool, frozenConfig)
		proxy.Freeze() // before there is a connection: the claim itself is never sent
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, _, err := e.TryAcquire(ctx, job); err == nil {
			t.Fatal("acquired over a frozen path")
		}
		proxy.Thaw()
		eventually(t, "return of the old calls", func() bool { return pool.Stats().InUse == 0 })
		if entries := j.entries(t, job); len(entries) > 0 {
			t.Errorf("a claim that was given up has taken the lease: %+v", entries)
		}
	})
}

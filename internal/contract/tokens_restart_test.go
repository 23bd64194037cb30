package contract_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

// A restart of the server is no reason to lose a term, and not even a crash of it may lose the row.
func TestLeaseSurvivesFastAndImmediateRestartOfServer(t *testing.T) {
	t.Parallel()
	server := pgtest.Private(t)
	type contender struct {
		driver      string
		pool, admin *sql.DB
		elector     *leader.Elector
		term        *leader.Term
	}
	var all []*contender
	for _, driver := range pgtest.Drivers {
		url, err := server.CreateDatabase(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		c := &contender{driver: driver}
		c.pool, c.admin = openPair(t, driver, url)
		cfg := leader.Config{TTL: 10 * time.Minute, RenewEvery: 100 * time.Millisecond}
		c.elector = newElector(t, c.pool, cfg)
		c.term = acquire(t, c.elector, job)
		mustExec(t, c.admin, `SELECT 1`)
		all = append(all, c)
	}
	const identity = `SELECT job_name || ' ' || holder || ' ' || token || ' ' || acquired_at
		FROM leader_lease`
	for _, immediate := range []bool{false, true} {
		var before []string
		for _, c := range all {
			before = append(before, scan[string](t, c.admin, identity))
		}
		if err := server.Restart(t.Context(), immediate); err != nil {
			t.Fatal(err)
		}
		for i, c := range all {
			var after string
			eventually(t, "the server answers again", func() bool {
				return c.admin.QueryRowContext(t.Context(), identity).Scan(&after) == nil
			})
			if after != before[i] {
				t.Errorf("%s, immediate %v: the lease was %s and is %s", c.driver, immediate, before[i], after)
			}
			eventuallyRenewed(t, c.admin, job, 2)
			stillLeads(t, c.term)
			last := c.term.Token()
			resign(t, c.term)
			if c.term = campaign(t, c.elector, job); c.term.Token() != last+1 {
				t.Errorf("%s, immediate %v: token %d after %d", c.driver, immediate, c.term.Token(), last)
			}
		}
	}
}

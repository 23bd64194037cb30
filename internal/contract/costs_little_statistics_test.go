package contract_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"testing"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/internal/pgtest"
)

// A process that takes thousands of leases in a table that was analyzed while it was empty: the
// planner takes every join for a small one, and must have no way to compare each lease with each
// row.
func TestRenewingManyLeasesLooksAtFewRowsInVainWhateverTheStatisticsSay(t *testing.T) {
	t.Parallel()
	const leases = 2000
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		mustExec(t, pool, `ALTER TABLE leader_lease SET (autovacuum_enabled = false)`)
		const fill = `INSERT INTO leader_lease
			SELECT 'job ' || n, 'me', 1, now(), now(), now() + interval '1 hour'
			FROM generate_series(1, $1::integer) AS n`
		mustExec(t, pool, fill, 5*leases)
		mustExec(t, pool, `DELETE FROM leader_lease`)
		mustExec(t, pool, `ANALYZE leader_lease`)
		mustExec(t, pool, fill, leases)
		terms := make([]map[string]any, leases)
		for i := range terms {
			terms[i] = map[string]any{"job_name": fmt.Sprintf("job %d", i+1), "token": 1}
		}
		text, err := json.Marshal(terms)
		if err != nil {
			t.Fatal(err)
		}
		tx, err := pool.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		rows, err := db.New(tx).RenewLeases(t.Context(), renewalsOf("me", string(text), 3600))
		if err != nil {
			t.Fatal(err)
		}
		renewed := 0
		for _, row := range rows {
			if row.Renewed {
				renewed++
			}
		}
		if renewed != leases || len(rows) != leases {
			t.Errorf("%d of %d answers say renewed, want %d", renewed, len(rows), leases)
		}
		if n := discarded(t, tx, string(text)); n > 5*leases {
			t.Errorf("%.0f rows were looked at in vain to renew %d leases", n, leases)
		}
	})
}

// discarded is how many rows the statement reads and throws away.
func discarded(t *testing.T, tx *sql.Tx, terms string) float64 {
	t.Helper()
	source, err := os.ReadFile("../../db/lease.sql.go")
	if err != nil {
		t.Fatal(err)
	}
	renewLeases := regexp.MustCompile("(?s)const renewLeases = `(.*?)`")
	statement := renewLeases.FindStringSubmatch(string(source))
	if statement == nil {
		t.Fatal("db/lease.sql.go no longer has renewLeases")
	}
	text := scan[string](t, tx, "EXPLAIN (ANALYZE, FORMAT JSON) "+statement[1], terms, "me", 3600.0)
	var plans []struct{ Plan map[string]any }
	if err := json.Unmarshal([]byte(text), &plans); err != nil {
		t.Fatal(err)
	}
	var sum func(map[string]any) float64
	sum = func(node map[string]any) float64 {
		loops, _ := node["Actual Loops"].(float64)
		byFilter, _ := node["Rows Removed by Filter"].(float64)
		byJoin, _ := node["Rows Removed by Join Filter"].(float64)
		n := loops * (byFilter + byJoin)
		children, _ := node["Plans"].([]any)
		for _, child := range children {
			n += sum(child.(map[string]any))
		}
		return n
	}
	return sum(plans[0].Plan)
}

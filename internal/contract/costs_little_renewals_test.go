package contract_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

func TestElectorRenewsAllItsLeasesWithOneStatement(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		const many = 1000
		pool, admin := openPair(t, driver, url)
		e := newElector(t, pool, leader.Config{TTL: 10 * time.Minute, RenewEvery: 200 * time.Millisecond})
		for i := range many {
			if _, ok, err := e.TryAcquire(t.Context(), fmt.Sprint("job ", i)); err != nil || !ok {
				t.Fatalf("TryAcquire(job %d) = %v, %v", i, ok, err)
			}
		}
		// The statement that wrote the newest version of a row is known by its transaction.
		writer := func() string {
			return scan[string](t, admin,
				`SELECT string_agg(DISTINCT xmin::text, ' ') || ' ' || count(*) FROM leader_lease`)
		}
		for range 2 {
			last := writer()
			eventually(t, "one statement renews all leases", func() bool {
				now := writer()
				return now != last && strings.Count(now, " ") == 1 && strings.HasSuffix(now, " 1000")
			})
		}
	})
}

func TestRenewalCostsOneRoundTripForOneLeaseAndForTenThousand(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		const many = 10_000
		proxy := pgtest.NewProxy(t, oneTrip(t, driver, url))
		pool, admin := pgtest.Open(t, driver, proxy.URL), pgtest.Open(t, driver, url)
		pool.SetMaxOpenConns(1)
		mustExec(t, admin, manyLeases, many)

		one := func() {
			n, err := db.New(pool).RenewLease(t.Context(), renewalOf("me", "job 7", 7, 3600))
			if err != nil || n != 1 {
				t.Fatalf("RenewLease = %d, %v", n, err)
			}
		}
		if n := roundTrips(t, pool, proxy, one); n != 1 {
			t.Errorf("the renewal of one lease took %d round trips, want 1", n)
		}
		terms := termsJSON(t, many)
		all := func() {
			rows, err := db.New(pool).RenewLeases(t.Context(), renewalsOf("me", terms, 3600))
			if err != nil || len(rows) != many {
				t.Fatalf("RenewLeases returned %d rows, %v", len(rows), err)
			}
		}
		if n := roundTrips(t, pool, proxy, all); n != 1 {
			t.Errorf("the renewal of %d leases took %d round trips, want 1", many, n)
		}
	})
}

// manyLeases makes job 1, job 2 and so on, whose tokens are their numbers.
const manyLeases = `INSERT INTO leader_lease
	SELECT 'job ' || i, 'me', i, now(), now(), now() + '1 h' FROM generate_series(1, $1) AS i`

// termsJSON is what RenewLeases wants for their terms.
func termsJSON(t *testing.T, n int) string {
	t.Helper()
	type wanted struct {
		Job   string `json:"job_name"`
		Token int    `json:"token"`
	}
	var list []wanted
	for i := range n {
		list = append(list, wanted{fmt.Sprint("job ", i+1), i + 1})
	}
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A snapshot that some other session of the server holds keeps old versions from being cleaned up,
// so the server is this test's alone.
func TestTableStaysFlatAndUpdatesStayHeapOnlyOverHundredThousandRenewals(t *testing.T) {
	t.Parallel()
	const leases, rounds, singles = 100, 450, 5_000 // for each driver
	url, err := pgtest.Private(t).CreateDatabase(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	admin := pgtest.Open(t, "pgx", url)
	if on := scan[string](t, admin, `SHOW autovacuum`); on != "on" {
		t.Fatalf("autovacuum is %s", on)
	}
	mustExec(t, admin, manyLeases, leases)
	const size = `SELECT pg_relation_size('leader_lease') + pg_relation_size('leader_lease_pkey')
		+ pg_relation_size('leader_lease_job_name_token_key')`
	before := scan[int64](t, admin, size)
	for _, driver := range pgtest.Drivers {
		renewTable(t, db.New(pgtest.Open(t, driver, oneTrip(t, driver, url))), leases, rounds, singles)
	}

	// 100,000 versions that nobody cleans up are 11 MB of table, and those that are not heap-only as
	// many index entries again. The bound leaves every lease ten dead versions: autovacuum reads the
	// table too, and holds a snapshot for a moment.
	const bound = leases * 10 * 128
	after := scan[int64](t, admin, size)
	t.Logf("table and indexes: %d bytes before, %d after", before, after)
	if after > before+bound {
		t.Errorf("table and indexes grew from %d to %d bytes, want at most %d more", before, after, bound)
	}
	const stats = `SELECT n_tup_upd || ' ' || n_tup_hot_upd
		FROM pg_stat_user_tables WHERE relname = 'leader_lease'`
	var updates, hot int64
	// The server publishes them about once a second.
	eventually(t, "statistics of all renewals", func() bool {
		if _, err := fmt.Sscan(scan[string](t, admin, stats), &updates, &hot); err != nil {
			t.Fatal(err)
		}
		return updates >= 100_000
	})
	t.Logf("%d updates, %d of them heap-only", updates, hot)
	if hot*100 < updates*98 {
		t.Errorf("%d of %d renewals were heap-only updates, want 98%%", hot, updates)
	}
}

// renewTable renews all leases together in so many rounds, and then single ones so many times.
func renewTable(t *testing.T, q *db.Queries, leases, rounds, singles int) {
	t.Helper()
	terms := termsJSON(t, leases)
	for range rounds {
		rows, err := q.RenewLeases(t.Context(), renewalsOf("me", terms, 3600))
		if err != nil || len(rows) != leases {
			t.Fatalf("RenewLeases returned %d rows, %v", len(rows), err)
		}
	}
	for i := range singles {
		token := i%leases + 1
		renewal := renewalOf("me", fmt.Sprint("job ", token), int64(token), 3600)
		n, err := q.RenewLease(t.Context(), renewal)
		if err != nil || n != 1 {
			t.Fatalf("RenewLease = %d, %v", n, err)
		}
	}
}

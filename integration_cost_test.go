package pgleader_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

// oneTrip makes lib/pq take one round trip for a statement; pgx does so by itself once it has prepared it.
func oneTrip(t *testing.T, driver, url string) string {
	t.Helper()
	if driver == "postgres" {
		return withParam(t, url, "binary_parameters", "yes")
	}
	return url
}

// roundTrips counts what one call costs on the only connection of a pool. A call before it prepares the statement; pgx pings a
// connection that was taken from the pool more than a second ago, so it is taken just before, and it counts again where the
// machine was that slow.
func roundTrips(t *testing.T, pool *sql.DB, proxy *pgtest.Proxy, call func()) int64 {
	t.Helper()
	call()
	for {
		warm := time.Now()
		mustExec(t, pool, `SELECT 1`)
		before, waited := proxy.RoundTrips(), time.Since(warm)
		call()
		if n := proxy.RoundTrips() - before; waited < 500*time.Millisecond {
			return n
		}
	}
}

func TestLosingAttemptCostsOneRoundTripAndTellsWhoLeads(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		proxy := pgtest.NewProxy(t, oneTrip(t, driver, url))
		pool, admin := pgtest.Open(t, driver, proxy.URL), pgtest.Open(t, driver, url)
		pool.SetMaxOpenConns(1)
		winner := newElector(t, admin, slow)
		term := acquire(t, winner, job)

		var seen events
		cfg := slow
		cfg.OnEvent = seen.add
		loser := newElector(t, pool, cfg)
		refused(t, loser, job) // by a claim; from now on it looks first, by another statement
		if n := roundTrips(t, pool, proxy, func() { refused(t, loser, job) }); n != 1 {
			t.Errorf("a losing attempt took %d round trips, want 1", n)
		}
		for _, e := range seen.of(leader.Skipped) {
			if e.Holder != winner.Holder() || e.Token != term.Token() || e.Job != job {
				t.Errorf("the attempt reported %+v, want the leader %s", e, winner.Holder())
			}
		}
		answer, err := db.New(pool).AcquireLease(t.Context(), db.AcquireLeaseParams{Holder: "loser", JobName: job, TTLSeconds: 1})
		if err != nil || answer.Acquired || answer.Holder != winner.Holder() || answer.Token != term.Token() ||
			answer.TimeLeft < 3500 || answer.TimeLeft > 3600 {
			t.Errorf("AcquireLease = %+v, %v; want the leader and an hour of time left", answer, err)
		}
	})
}

func TestLosingAttemptWritesNothingAndLocksNothing(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		acquire(t, newElector(t, pool, slow), job)
		const system = `SELECT ctid::text || ' ' || xmin::text || ' ' || xmax::text FROM leader_lease WHERE job_name = $1`
		before := scan[string](t, pool, system, job)

		tx := begin(t, pool, sql.LevelDefault)
		statement := &recorder{DBTX: tx}
		attempt := func(job, holder string) {
			t.Helper()
			if _, err := db.New(statement).AcquireLease(t.Context(), db.AcquireLeaseParams{Holder: holder, JobName: job, TTLSeconds: 1}); err != nil {
				t.Fatal(err)
			}
		}
		attempt(job, "loser")
		if bytes := walBytes(t, tx, statement); bytes != 0 {
			t.Errorf("a losing attempt wrote %v bytes of WAL, want 0", bytes)
		}
		if !scan[bool](t, tx, `SELECT pg_current_xact_id_if_assigned() IS NULL`) {
			t.Error("a losing attempt made its transaction one that writes")
		}
		// Its transaction is still open.
		rival := begin(t, pool, sql.LevelDefault)
		txExec(t, rival, `SELECT FROM leader_lease WHERE job_name = $1 FOR UPDATE NOWAIT`, job)
		rollback(t, rival)
		if after := scan[string](t, pool, system, job); after[:4] != before[:4] {
			t.Errorf("the row's ctid, xmin and xmax were %s and are %s", before, after)
		}

		attempt("free", "winner") // shows that the measurement sees a write where there is one
		if bytes := walBytes(t, tx, statement); bytes == 0 {
			t.Error("a winning attempt wrote 0 bytes of WAL: the measurement is blind")
		}
	})
}

// A recorder remembers the statement that the generated code sent last.
type recorder struct {
	db.DBTX
	query string
	args  []any
}

func (r *recorder) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	r.query, r.args = query, args
	return r.DBTX.QueryRowContext(ctx, query, args...)
}

// walBytes runs the recorded statement once more and returns how much WAL it wrote.
func walBytes(t *testing.T, tx *sql.Tx, r *recorder) float64 {
	t.Helper()
	var text string
	if err := tx.QueryRowContext(t.Context(), `EXPLAIN (ANALYZE, WAL, FORMAT JSON) `+r.query, r.args...).Scan(&text); err != nil {
		t.Fatal(err)
	}
	var plans []struct{ Plan planNode }
	if err := json.Unmarshal([]byte(text), &plans); err != nil || len(plans) != 1 || plans[0].Plan.WALBytes == nil {
		t.Fatalf("no WAL bytes in %s (%v)", text, err)
	}
	return plans[0].Plan.bytes()
}

type planNode struct {
	WALBytes *float64 `json:"WAL Bytes"`
	Plans    []planNode
}

// bytes adds up the nodes: what a statement writes in a WITH clause that nothing reads is not part of the top node.
func (n planNode) bytes() float64 {
	sum := *n.WALBytes
	for _, child := range n.Plans {
		sum += child.bytes()
	}
	return sum
}

func TestRenewalCostsOneRoundTripForOneLeaseAndForTenThousand(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		const many = 10_000
		proxy := pgtest.NewProxy(t, oneTrip(t, driver, url))
		pool, admin := pgtest.Open(t, driver, proxy.URL), pgtest.Open(t, driver, url)
		pool.SetMaxOpenConns(1)
		mustExec(t, admin, `INSERT INTO leader_lease SELECT 'job ' || i, 'me', i, now(), now(), now() + '1 h' FROM generate_series(1, $1) AS i`, many)

		one := func() {
			n, err := db.New(pool).RenewLease(t.Context(), db.RenewLeaseParams{JobName: "job 7", Holder: "me", Token: 7, TTLSeconds: 3600})
			if err != nil || n != 1 {
				t.Fatalf("RenewLease = %d, %v", n, err)
			}
		}
		if n := roundTrips(t, pool, proxy, one); n != 1 {
			t.Errorf("the renewal of one lease took %d round trips, want 1", n)
		}
		terms := termsJSON(t, many)
		all := func() {
			rows, err := db.New(pool).RenewLeases(t.Context(), db.RenewLeasesParams{Terms: terms, Holder: "me", TTLSeconds: 3600})
			if err != nil || len(rows) != many {
				t.Fatalf("RenewLeases returned %d rows, %v", len(rows), err)
			}
		}
		if n := roundTrips(t, pool, proxy, all); n != 1 {
			t.Errorf("the renewal of %d leases took %d round trips, want 1", many, n)
		}
	})
}

// termsJSON is what RenewLeases wants for the terms of job 1, job 2 and so on, whose tokens are their numbers.
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
			return scan[string](t, admin, `SELECT string_agg(DISTINCT xmin::text, ' ') || ' ' || count(*) FROM leader_lease`)
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

// A snapshot that some other session of the server holds keeps old versions from being cleaned up, so the server is this test's alone.
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
	mustExec(t, admin, `INSERT INTO leader_lease SELECT 'job ' || i, 'me', i, now(), now(), now() + '1 h' FROM generate_series(1, $1) AS i`, leases)
	const size = `SELECT pg_relation_size('leader_lease') + pg_relation_size('leader_lease_pkey')
		+ pg_relation_size('leader_lease_job_name_token_key')`
	before := scan[int64](t, admin, size)
	for _, driver := range pgtest.Drivers {
		renewTable(t, db.New(pgtest.Open(t, driver, oneTrip(t, driver, url))), leases, rounds, singles)
	}

	// 100,000 versions that nobody cleans up are 11 MB of table, and those that are not heap-only as many index entries again. The
	// bound leaves every lease ten dead versions: autovacuum reads the table too, and holds a snapshot for a moment.
	const bound = leases * 10 * 128
	after := scan[int64](t, admin, size)
	t.Logf("table and indexes: %d bytes before, %d after", before, after)
	if after > before+bound {
		t.Errorf("table and indexes grew from %d to %d bytes, want at most %d more", before, after, bound)
	}
	const stats = `SELECT n_tup_upd || ' ' || n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'leader_lease'`
	var updates, hot int64
	eventually(t, "statistics of all renewals", func() bool { // the server publishes them about once a second
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
		rows, err := q.RenewLeases(t.Context(), db.RenewLeasesParams{Terms: terms, Holder: "me", TTLSeconds: 3600})
		if err != nil || len(rows) != leases {
			t.Fatalf("RenewLeases returned %d rows, %v", len(rows), err)
		}
	}
	for i := range singles {
		token := i%leases + 1
		n, err := q.RenewLease(t.Context(), db.RenewLeaseParams{
			JobName: fmt.Sprint("job ", token), Holder: "me", Token: int64(token), TTLSeconds: 3600,
		})
		if err != nil || n != 1 {
			t.Fatalf("RenewLease = %d, %v", n, err)
		}
	}
}

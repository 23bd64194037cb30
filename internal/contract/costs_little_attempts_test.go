package contract_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"testing"
	"time"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

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
		for _, e := range seen.of(leader.EventSkipped) {
			if e.Holder != winner.Holder() || e.Token != term.Token() || e.Job != job {
				t.Errorf("the attempt reported %+v, want the leader %s", e, winner.Holder())
			}
		}
		answer, err := db.New(pool).AcquireLease(t.Context(), claimOf("loser", job, 1))
		if err != nil || answer.Acquired || answer.Holder != winner.Holder() ||
			answer.Token != term.Token() || answer.TimeLeft < 3500 || answer.TimeLeft > 3600 {
			t.Errorf("AcquireLease = %+v, %v; want the leader and an hour of time left", answer, err)
		}
	})
}

// oneTrip makes lib/pq take one round trip for a statement; pgx does so by itself once it has
// prepared it.
func oneTrip(t *testing.T, driver, url string) string {
	t.Helper()
	if driver == "postgres" {
		return withParam(t, url, "binary_parameters", "yes")
	}
	return url
}

// roundTrips counts what one call costs on the only connection of a pool. A call before it prepares
// the statement; pgx pings a connection that was taken from the pool more than a second ago, so it
// is taken just before, and it counts again where the machine was that slow.
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

func TestLosingAttemptWritesNothingAndLocksNothing(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		acquire(t, newElector(t, pool, slow), job)
		const system = `SELECT ctid::text || ' ' || xmin::text || ' ' || xmax::text
			FROM leader_lease WHERE job_name = $1`
		before := scan[string](t, pool, system, job)

		tx := begin(t, pool, sql.LevelDefault)
		statement := &recorder{DBTX: tx}
		attempt := func(job, holder string) {
			t.Helper()
			_, err := db.New(statement).AcquireLease(t.Context(), claimOf(holder, job, 1))
			if err != nil {
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
	text := scan[string](t, tx, `EXPLAIN (ANALYZE, WAL, FORMAT JSON) `+r.query, r.args...)
	var plans []struct{ Plan planNode }
	err := json.Unmarshal([]byte(text), &plans)
	if err != nil || len(plans) != 1 || plans[0].Plan.WALBytes == nil {
		t.Fatalf("no WAL bytes in %s (%v)", text, err)
	}
	return plans[0].Plan.bytes()
}

type planNode struct {
	WALBytes *float64 `json:"WAL Bytes"`
	Plans    []planNode
}

// bytes adds up the nodes: what a statement writes in a WITH clause that nothing reads is not part
// of the top node.
func (n planNode) bytes() float64 {
	sum := *n.WALBytes
	for _, child := range n.Plans {
		sum += child.bytes()
	}
	return sum
}

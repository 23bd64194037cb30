package contract_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/migrations"
)

func TestTokenGrowsAcrossAFailoverThatLosesTheLastTerms(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	pool := pgtest.Open(t, "pgx", p.primary.URL)
	first := acquire(t, newElector(t, pool, slow), job)
	if first.Token() != 1 {
		t.Errorf("the first token of a server that was never promoted is %d, want 1", first.Token())
	}
	resign(t, first)
	p.caughtUp(t)
	p.detach(t)
	var lost int64
	for range 5 { // the standby never hears of them
		term := acquire(t, newElector(t, pool, slow), job)
		lost = term.Token()
		resign(t, term)
	}
	unheard := acquire(t, newElector(t, pool, slow), "a job that the standby never hears of")
	p.primary.Stop(t)
	p.promote(t)

	promoted := pgtest.Open(t, "pgx", p.standby.URL)
	if known := tokenOf(t, promoted, job); known != 1 {
		t.Fatalf("the promoted server knows token %d, want 1: it has lost nothing", known)
	}
	next := acquire(t, newElector(t, promoted, slow), job)
	if next.Token() <= lost {
		t.Errorf("token %d after the failover, the lost terms went up to %d", next.Token(), lost)
	}
	if want := int64(1)<<32 + 1; next.Token() != want {
		t.Errorf("token %d on timeline 2, want %d", next.Token(), want)
	}
	other := acquire(t, newElector(t, promoted, slow), unheard.Job())
	if other.Token() <= unheard.Token() {
		t.Errorf("token %d for a new row after the failover, the lost one was %d",
			other.Token(), unheard.Token())
	}
	resign(t, next)
	if again := acquire(t, newElector(t, promoted, slow), job); again.Token() != next.Token()+1 {
		t.Errorf("the token after %d is %d", next.Token(), again.Token())
	}

	// The old primary comes back as it was, and nobody has told it. It elects leaders of its own, and
	// every receiver that has seen the new token refuses theirs.
	if err := p.primary.Restart(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	stale := acquire(t, newElector(t, pgtest.Open(t, "pgx", p.primary.URL), slow), job)
	if stale.Token() >= next.Token() {
		t.Errorf("the stale primary gives out token %d, beside %d", stale.Token(), next.Token())
	}
}

// The limit: a compatible database that tells no timeline elects as ever, and its tokens know
// nothing of a failover.
func TestWithoutTimelinesTokensDoNotGrowAcrossAFailover(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.caughtUp(t)
	p.primary.Stop(t)
	p.promote(t)
	promoted := pgtest.Open(t, "pgx", p.standby.URL)
	mustExec(t, promoted, `CREATE SCHEMA lacking`)
	mustExec(t, promoted, `CREATE FUNCTION lacking.pg_walfile_name(pg_lsn) RETURNS text
		LANGUAGE plpgsql AS 'BEGIN RAISE undefined_function; END'`)
	mustExec(t, promoted, `ALTER FUNCTION leader_token_floor() SET search_path = lacking, pg_catalog`)
	for want := int64(1); want <= 3; want++ {
		term := acquire(t, newElector(t, promoted, slow), job)
		if term.Token() != want {
			t.Errorf("token %d, want %d", term.Token(), want)
		}
		resign(t, term)
	}
	mustExec(t, promoted, `ALTER FUNCTION leader_token_floor() RESET search_path`)
	if term := acquire(t, newElector(t, promoted, slow), job); term.Token() != 1<<32+1 {
		t.Errorf("token %d with the timeline, want %d: the test shows nothing",
			term.Token(), int64(1)<<32+1)
	}
}

// With synchronous replication a term that was handed out is on the standby too.
func TestSynchronousStandbyKnowsEveryTerm(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	pool := pgtest.Open(t, "pgx", p.primary.URL)
	mustExec(t, pool, `ALTER SYSTEM SET synchronous_standby_names = 'standby'`)
	mustExec(t, pool, `SELECT pg_reload_conf()`)
	eventually(t, "synchronous replication", func() bool {
		return scan[bool](t, pool,
			`SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'`)
	})
	var last int64
	for range 20 {
		term := acquire(t, newElector(t, pool, slow), job)
		last = term.Token()
		resign(t, term)
	}
	const led = "a job that is led" // its term is never resigned: its server is gone
	if _, ok, err := newElector(t, pool, slow).TryAcquire(t.Context(), led); err != nil || !ok {
		t.Fatal(ok, err)
	}
	p.primary.Stop(t)
	p.promote(t)
	promoted := pgtest.Open(t, "pgx", p.standby.URL)
	if known := tokenOf(t, promoted, job); known != last {
		t.Errorf("the promoted server knows token %d, the last one was %d", known, last)
	}
	refused(t, newElector(t, promoted, slow), led) // its lease lives on
}

// A term whose lease the standby knows goes on there. A process with both servers in its URL finds
// the new primary by itself.
func TestTermGoesOnThroughAFailoverThatLosesNothing(t *testing.T) {
	t.Parallel()
	for _, driver := range pgtest.Drivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			pool := pgtest.Open(t, driver, p.url(t))
			e := newElector(t, pool, quick)
			term := acquire(t, e, job)
			p.caughtUp(t)
			p.primary.Stop(t)
			p.promote(t)
			promoted := pgtest.Open(t, "pgx", p.standby.URL)
			eventuallyRenewed(t, promoted, job, 3)
			stillLeads(t, term)
			resign(t, term)
			if next := campaign(t, e, job); next.Token() != 1<<32+1 {
				t.Errorf("token %d after %d, want the first one of timeline 2", next.Token(), term.Token())
			}
		})
	}
}

// A pair is a primary and its standby, with the tables.
type pair struct{ primary, standby *pgtest.Server }

// caughtUp waits until the standby has replayed what the primary has written.
func (p pair) caughtUp(t *testing.T) {
	t.Helper()
	primary, standby := pgtest.Open(t, "pgx", p.primary.URL), pgtest.Open(t, "pgx", p.standby.URL)
	written := scan[string](t, primary, `SELECT pg_current_wal_lsn()::text`)
	eventually(t, "the standby to catch up", func() bool {
		return scan[bool](t, standby,
			`SELECT coalesce(pg_last_wal_replay_lsn() >= $1::pg_lsn, false)`, written)
	})
}

// promote makes the standby the primary.
func (p pair) promote(t *testing.T) {
	t.Helper()
	pool := pgtest.Open(t, "pgx", p.standby.URL)
	if !scan[bool](t, pool, `SELECT pg_promote(true, 60)`) {
		t.Fatal("the standby was not promoted")
	}
}

// detach ends replication, and nobody notices: what the primary writes from now on is lost in a
// failover.
func (p pair) detach(t *testing.T) {
	t.Helper()
	standby := pgtest.Open(t, "pgx", p.standby.URL)
	mustExec(t, standby, `ALTER SYSTEM SET primary_conninfo = ''`)
	mustExec(t, standby, `SELECT pg_reload_conf()`)
	eventually(t, "replication to end", func() bool {
		return scan[int](t, standby, `SELECT count(*) FROM pg_stat_wal_receiver`) == 0
	})
}

// url names both servers, as an application's would. lib/pq wants several ports beside the hosts,
// not behind each.
func (p pair) url(t *testing.T) string {
	t.Helper()
	var hosts, ports []string
	var user, password string
	for _, server := range []*pgtest.Server{p.primary, p.standby} {
		u, err := url.Parse(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		hosts, ports = append(hosts, u.Hostname()), append(ports, u.Port())
		user = u.User.Username()
		password, _ = u.User.Password()
	}
	return "host=" + strings.Join(hosts, ",") + " port=" + strings.Join(ports, ",") +
		" user=" + user + " password=" + password +
		" dbname=postgres sslmode=disable connect_timeout=5 target_session_attrs=read-write"
}

func newPair(t *testing.T) pair {
	t.Helper()
	primary := pgtest.PrivateLocal(t)
	p := pair{primary, primary.Standby(t)}
	pool := pgtest.Open(t, "pgx", primary.URL)
	if err := migrations.Up(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	return p
}

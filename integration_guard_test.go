package pgleader_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

// An isolation is a way to get an isolation level: asked for by the transaction, or the database's default.
type isolation struct {
	name      string
	level     sql.IsolationLevel
	byDefault string
}

var isolations = []isolation{
	{"ReadCommitted", sql.LevelReadCommitted, ""},
	{"RepeatableRead", sql.LevelRepeatableRead, ""},
	{"Serializable", sql.LevelSerializable, ""},
	{"ReadCommittedByDefault", sql.LevelDefault, "read committed"},
	{"RepeatableReadByDefault", sql.LevelDefault, "repeatable read"},
	{"SerializableByDefault", sql.LevelDefault, "serializable"},
}

// snapshots reports whether a transaction sees one snapshot from its first statement to its end.
func (i isolation) snapshots() bool {
	return i.level > sql.LevelReadCommitted || i.byDefault == "repeatable read" || i.byDefault == "serializable"
}

// forEachIsolation runs a test over both drivers and all isolations, each on a fresh database with a table for guarded writes.
func forEachIsolation(t *testing.T, test func(t *testing.T, driver, url string, i isolation)) {
	t.Helper()
	for _, i := range isolations {
		t.Run(i.name, func(t *testing.T) {
			forEachDriver(t, func(t *testing.T, driver, url string) {
				pool := pgtest.Open(t, driver, url)
				mustExec(t, pool, `CREATE TABLE report (id bigint GENERATED ALWAYS AS IDENTITY, token bigint)`)
				if i.byDefault != "" {
					alterDatabase(t, pgtest.Open(t, driver, direct(url)), `SET default_transaction_isolation = '`+i.byDefault+`'`)
				}
				test(t, driver, url, i)
			})
		})
	}
}

func TestGuardUnderEveryIsolation(t *testing.T) {
	t.Parallel()
	forEachIsolation(t, func(t *testing.T, driver, url string, i isolation) {
		for _, behaviour := range []struct {
			name  string
			check func(t *testing.T, driver, url, job string, i isolation)
		}{
			{"LetsRenewalsPassAndHoldsOffSuccessorUntilCommit", guardLetsRenewalsPassAndHoldsOffSuccessorUntilCommit},
			{"OfStaleTermIsRefusedByTheDatabase", guardOfStaleTermIsRefusedByTheDatabase},
			{"BehindAnOldSnapshotIsGrantedAfterRenewalAndRefusedAfterTakeover", guardBehindAnOldSnapshotIsGrantedAfterRenewalAndRefusedAfterTakeover},
		} {
			t.Run(behaviour.name, func(t *testing.T) { behaviour.check(t, driver, url, behaviour.name, i) })
		}
	})
}

func guardLetsRenewalsPassAndHoldsOffSuccessorUntilCommit(t *testing.T, driver, url, job string, i isolation) {
	pool, admin := openPair(t, driver, url)
	term := acquire(t, newElector(t, pool, quick), job)
	successor := newElector(t, pool, quick)

	tx := begin(t, pool, i.level)
	if err := term.Guard(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	eventuallyRenewed(t, admin, job, 3)
	stillLeads(t, term)

	expire(t, admin, job)
	endsWithLoss(t, term)
	for range 3 {
		refused(t, successor, job)
	}
	elected := make(chan *leader.Term)
	go func() {
		term, err := successor.Campaign(t.Context(), job)
		if err != nil {
			t.Error(err)
		}
		elected <- term
	}()
	for range 20 { // the successor looks and claims meanwhile
		refused(t, newElector(t, pool, quick), job)
	}
	select {
	case <-elected:
		t.Fatal("a successor leads beside an open guarded transaction")
	default:
	}
	txExec(t, tx, `INSERT INTO report (token) VALUES ($1)`, term.Token())
	commit(t, tx)

	next := receive(t, "the takeover", elected)
	if next == nil || next.Token() != 2 {
		t.Fatalf("the successor's term is %v, want token 2", next)
	}
	resign(t, next)
}

func guardOfStaleTermIsRefusedByTheDatabase(t *testing.T, driver, url, job string, i isolation) {
	pool, admin := openPair(t, driver, url)
	stale := acquire(t, newElector(t, pool, slow), job)
	expire(t, admin, job)
	acquire(t, newElector(t, pool, slow), job)

	stillLeads(t, stale) // it has not heard of it, so it is the database that refuses
	if err := stale.Guard(t.Context(), begin(t, pool, i.level)); !errors.Is(err, leader.ErrLost) {
		t.Errorf("Guard = %v, want ErrLost", err)
	}
	endsWithLoss(t, stale)
	if err := stale.Guard(t.Context(), begin(t, pool, i.level)); !errors.Is(err, leader.ErrLost) {
		t.Errorf("the second Guard = %v, want ErrLost", err)
	}
}

func guardBehindAnOldSnapshotIsGrantedAfterRenewalAndRefusedAfterTakeover(t *testing.T, driver, url, job string, i isolation) {
	pool, admin := openPair(t, driver, url)

	renewed := begin(t, pool, i.level)
	txExec(t, renewed, `INSERT INTO report (token) SELECT count(*) FROM leader_lease`)
	term := acquire(t, newElector(t, pool, slow), job)
	resign(t, term)
	rollback(t, renewed)

	term = acquire(t, newElector(t, pool, slow), job)
	renewed = begin(t, pool, i.level)
	txExec(t, renewed, `INSERT INTO report (token) SELECT max(token) FROM leader_lease WHERE job_name = $1`, job)
	holder := scan[string](t, admin, `SELECT holder FROM leader_lease WHERE job_name = $1`, job)
	if n, err := db.New(admin).RenewLease(t.Context(), db.RenewLeaseParams{
		TTLSeconds: 3600, JobName: job, Holder: holder, Token: term.Token(),
	}); err != nil || n != 1 {
		t.Fatalf("RenewLease = %d, %v", n, err)
	}
	if err := term.Guard(t.Context(), renewed); err != nil {
		t.Fatalf("Guard after a renewal: %v", err)
	}
	commit(t, renewed)

	overtaken := begin(t, pool, i.level)
	txExec(t, overtaken, `INSERT INTO report (token) SELECT max(token) FROM leader_lease WHERE job_name = $1`, job)
	expire(t, admin, job)
	acquire(t, newElector(t, pool, slow), job)
	err := term.Guard(t.Context(), overtaken)
	if i.snapshots() && sqlState(err) == "40001" {
		rollback(t, overtaken)
		err = term.Guard(t.Context(), begin(t, pool, i.level))
	}
	if !errors.Is(err, leader.ErrLost) {
		t.Errorf("Guard after a takeover = %v, want ErrLost, or under a snapshot 40001 and then ErrLost", err)
	}
}

func TestGuardOfResignedTermIsRefused(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		term := acquire(t, newElector(t, pool, slow), job)
		resign(t, term)
		if err := term.Guard(t.Context(), begin(t, pool, sql.LevelDefault)); !errors.Is(err, leader.ErrLost) {
			t.Errorf("Guard = %v, want ErrLost", err)
		}
		if err := term.Guard(t.Context(), nil); err == nil {
			t.Error("Guard accepts a nil transaction")
		}
	})
}

func TestManyGuardsOfOneTermAreOpenAtOnce(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool, admin := openPair(t, driver, url)
		term := acquire(t, newElector(t, pool, quick), job)
		var open []*sql.Tx
		for range 16 {
			tx := begin(t, pool, sql.LevelDefault)
			if err := term.Guard(t.Context(), tx); err != nil {
				t.Fatal(err)
			}
			open = append(open, tx)
		}
		eventuallyRenewed(t, admin, job, 2)
		for _, tx := range open {
			commit(t, tx)
		}
		stillLeads(t, term)
	})
}

// The unique index on the token is what makes every takeover a key update, also one that somebody types in psql. Without it
// one that does not lock the row first goes straight through an open guard.
func TestUniqueTokenMakesEveryTakeoverWaitForGuard(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool, admin := openPair(t, driver, url)
		term := acquire(t, newElector(t, pool, slow), job)
		takeover := func() string {
			tx := begin(t, pool, sql.LevelDefault)
			defer tx.Rollback()
			if err := term.Guard(t.Context(), tx); err != nil {
				t.Fatal(err)
			}
			conn, err := admin.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := conn.ExecContext(t.Context(), `SET lock_timeout = '100ms'`); err != nil {
				t.Fatal(err)
			}
			attempt, err := conn.BeginTx(context.Background(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer attempt.Rollback()
			_, err = attempt.ExecContext(t.Context(), `UPDATE leader_lease SET holder = 'somebody', token = token + 1 WHERE job_name = $1`, job)
			return sqlState(err)
		}
		if state := takeover(); state != "55P03" {
			t.Errorf("a takeover beside an open guard: SQLSTATE %q, want 55P03 (it waited)", state)
		}
		mustExec(t, admin, `ALTER TABLE leader_lease DROP CONSTRAINT leader_lease_job_name_token_key`)
		if state := takeover(); state != "" {
			t.Errorf("a takeover without the unique index: SQLSTATE %q, want it to go through, or this test can't fail", state)
		}
	})
}

package contract_test

import (
	"database/sql"
	"errors"
	"testing"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

func TestGuardUnderEveryIsolation(t *testing.T) {
	t.Parallel()
	forEachIsolation(t, func(t *testing.T, driver, url string, i isolation) {
		for _, behaviour := range []struct {
			name  string
			check func(t *testing.T, driver, url, job string, i isolation)
		}{
			{"HoldsOffSuccessorUntilCommit", guardHoldsOffSuccessorUntilCommit},
			{"OfStaleTermIsRefusedByTheDatabase", guardOfStaleTermIsRefusedByTheDatabase},
			{"BehindAnOldSnapshot", guardBehindAnOldSnapshot},
		} {
			t.Run(behaviour.name, func(t *testing.T) {
				behaviour.check(t, driver, url, behaviour.name, i)
			})
		}
	})
}

// Renewals pass meanwhile.
func guardHoldsOffSuccessorUntilCommit(t *testing.T, driver, url, job string, i isolation) {
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
	elected := campaigning(t, successor, job)
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
	if next.Token() != 2 {
		t.Errorf("the successor's token is %d, want 2", next.Token())
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

// It is granted after a renewal that the snapshot does not show, and refused after such a takeover.
func guardBehindAnOldSnapshot(t *testing.T, driver, url, job string, i isolation) {
	const writeToken = `INSERT INTO report (token)
		SELECT max(token) FROM leader_lease WHERE job_name = $1`
	pool, admin := openPair(t, driver, url)

	renewed := begin(t, pool, i.level)
	txExec(t, renewed, `INSERT INTO report (token) SELECT count(*) FROM leader_lease`)
	term := acquire(t, newElector(t, pool, slow), job)
	resign(t, term)
	rollback(t, renewed)

	term = acquire(t, newElector(t, pool, slow), job)
	renewed = begin(t, pool, i.level)
	txExec(t, renewed, writeToken, job)
	holder := scan[string](t, admin, `SELECT holder FROM leader_lease WHERE job_name = $1`, job)
	n, err := db.New(admin).RenewLease(t.Context(), renewalOf(holder, job, term.Token(), 3600))
	if err != nil || n != 1 {
		t.Fatalf("RenewLease = %d, %v", n, err)
	}
	if err := term.Guard(t.Context(), renewed); err != nil {
		t.Fatalf("Guard after a renewal: %v", err)
	}
	commit(t, renewed)

	overtaken := begin(t, pool, i.level)
	txExec(t, overtaken, writeToken, job)
	expire(t, admin, job)
	acquire(t, newElector(t, pool, slow), job)
	err = term.Guard(t.Context(), overtaken)
	if i.snapshots() && sqlState(err) == "40001" {
		rollback(t, overtaken)
		err = term.Guard(t.Context(), begin(t, pool, i.level))
	}
	if !errors.Is(err, leader.ErrLost) {
		t.Errorf("Guard after a takeover = %v, want ErrLost, or under a snapshot 40001 first", err)
	}
}

// An isolation is a way to get an isolation level: asked for by the transaction, or the database's
// default.
type isolation struct {
	name      string
	level     sql.IsolationLevel
	byDefault string
}

// snapshots reports whether a transaction sees one snapshot from its first statement to its end.
func (i isolation) snapshots() bool {
	return i.level > sql.LevelReadCommitted ||
		i.byDefault == "repeatable read" || i.byDefault == "serializable"
}

var isolations = []isolation{
	{"ReadCommitted", sql.LevelReadCommitted, ""},
	{"RepeatableRead", sql.LevelRepeatableRead, ""},
	{"Serializable", sql.LevelSerializable, ""},
	{"ReadCommittedByDefault", sql.LevelDefault, "read committed"},
	{"RepeatableReadByDefault", sql.LevelDefault, "repeatable read"},
	{"SerializableByDefault", sql.LevelDefault, "serializable"},
}

// forEachIsolation runs a test over both drivers and all isolations, each on a fresh database with
// a table for guarded writes.
func forEachIsolation(t *testing.T, test func(t *testing.T, driver, url string, i isolation)) {
	t.Helper()
	for _, i := range isolations {
		t.Run(i.name, func(t *testing.T) {
			forEachDriver(t, func(t *testing.T, driver, url string) {
				pool := pgtest.Open(t, driver, url)
				mustExec(t, pool, `CREATE TABLE report (id bigint GENERATED ALWAYS AS IDENTITY, token bigint)`)
				if i.byDefault != "" {
					admin := pgtest.Open(t, driver, direct(url))
					alterDatabase(t, admin, `SET default_transaction_isolation = '`+i.byDefault+`'`)
				}
				test(t, driver, url, i)
			})
		})
	}
}

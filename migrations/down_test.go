package migrations_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/migrations"
)

func TestDownUndoesUpWhereSearchPathPoints(t *testing.T) {
	forEachDriver(t, func(t *testing.T, driver string) {
		rawURL := pgtest.NewEmptyURL(t)
		admin := pgtest.Open(t, driver, rawURL)
		createApplication(t, admin)
		mustExec(t, admin, "CREATE SCHEMA workers; CREATE SCHEMA newcomer")
		before := schemaOf(t, admin)
		mustUp(t, pgtest.Open(t, driver, withParam(t, rawURL, "search_path", "workers")))

		// A schema put in front of the path later is not where the tables are.
		db := pgtest.Open(t, driver, withParam(t, rawURL, "search_path", "newcomer,workers"))
		db.SetMaxOpenConns(1)
		checkState(t, db, migrations.State{Version: newest(), Newest: newest()})
		mustDown(t, db, 1)
		checkState(t, db, migrations.State{Version: 1, Newest: newest()})
		if exists(t, admin, "workers.leader_slot") || !exists(t, admin, "workers.leader_lease") {
			t.Error("down to version 1 did not take back exactly the slots")
		}
		mustDown(t, db, 1)
		checkState(t, db, migrations.State{Version: 1, Newest: newest()})
		for range 2 {
			mustDown(t, db, 0)
			checkState(t, db, migrations.State{Newest: newest()})
		}
		if after := schemaOf(t, admin); after != before {
			t.Errorf("left behind:\n%s\n\nwant:\n%s", after, before)
		}
		checkApplication(t, admin)
		mustUp(t, db)
		mustExec(t, db, "DROP TABLE leader_slot, leader_lease; DROP FUNCTION leader_token_floor(); "+
			"DELETE FROM leader_schema_migrations")
		mustDown(t, db, 0)
		if exists(t, admin, "newcomer.leader_schema_migrations") {
			t.Error("an empty version table stays")
		}
	})
}

func TestDownRefusesWhatItCannotUndo(t *testing.T) {
	t.Parallel()
	rawURL := pgtest.NewURL(t)
	db := pgtest.Open(t, "postgres", rawURL)
	readOnly := pgtest.Open(t, "postgres", withParam(t, rawURL, "default_transaction_read_only", "on"))
	if err := migrations.Down(t.Context(), readOnly, 0); !errors.Is(err, migrations.ErrReadOnly) {
		t.Errorf("on a read-only server: %v", err)
	}
	stranger := openAsNewRole(t, db, "postgres", rawURL)
	mustExec(t, db, "GRANT SELECT ON leader_schema_migrations TO PUBLIC")
	if err := migrations.Down(t.Context(), stranger, 0); err == nil || !strings.Contains(err.Error(),
		"the role lacks a right") {
		t.Errorf("for a role that owns nothing: %v", err)
	}
	mustExec(t, db, "UPDATE leader_schema_migrations SET version = version + 1")
	if err := migrations.Down(t.Context(), db, 0); err == nil || !strings.Contains(err.Error(),
		"of a newer release than this program") {
		t.Errorf("at a newer version: %v", err)
	}
	mustExec(t, db, "UPDATE leader_schema_migrations SET version = 1, dirty = true")
	checkState(t, db, migrations.State{Version: 1, Newest: newest(), Dirty: true})
	checkDirty(t, migrations.Down(t.Context(), db, 0), 1)
	if !exists(t, db, "leader_lease") || !exists(t, db, "leader_slot") {
		t.Error("a refused Down has taken something away")
	}
}

func TestDownLeavesEverythingWhileTableIsInUse(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t, "pgx", pgtest.NewURL(t))
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(t.Context(), "SELECT FROM leader_lease"); err != nil {
		t.Fatal(err)
	}
	checkLocked(t, migrations.Down(t.Context(), db, 0))
	if !exists(t, db, "leader_slot") {
		t.Error("the slots are gone, although the leases could not be dropped")
	}
}

func mustDown(t *testing.T, db *sql.DB, target int) {
	t.Helper()
	if err := migrations.Down(t.Context(), db, target); err != nil {
		t.Fatal(err)
	}
}

func checkState(t *testing.T, db *sql.DB, want migrations.State) {
	t.Helper()
	got, err := migrations.Version(t.Context(), db)
	if err != nil || got != want {
		t.Errorf("state is %+v, %v, want %+v", got, err, want)
	}
}

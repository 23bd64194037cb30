package migrations_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/migrations"
)

func TestUpLeavesApplicationsVersionTableAlone(t *testing.T) {
	forEachDriver(t, func(t *testing.T, driver string) {
		db := pgtest.Open(t, driver, pgtest.NewEmptyURL(t))
		createApplication(t, db)
		mustUp(t, db)
		checkApplication(t, db)
		checkVersion(t, db, newest())
		if !exists(t, db, "leader_lease") {
			t.Error("leader_lease was not created")
		}
	})
}

// createApplication makes what an application has that migrates itself with golang-migrate, and is
// at version 42.
func createApplication(t *testing.T, db *sql.DB) {
	t.Helper()
	mustExec(t, db,
		`CREATE TABLE schema_migrations (version bigint NOT NULL PRIMARY KEY, dirty boolean NOT NULL)`)
	mustExec(t, db, `INSERT INTO schema_migrations VALUES (42, false)`)
}

func checkApplication(t *testing.T, db *sql.DB) {
	t.Helper()
	got := scan[string](t, db,
		`SELECT string_agg(version || ' ' || dirty, ', ') FROM schema_migrations`)
	if got != "42 false" {
		t.Errorf("the application's schema_migrations became %q", got)
	}
}

func TestUpLeavesPoolOpenAndFitsIntoOneConnection(t *testing.T) {
	forEachDriver(t, func(t *testing.T, driver string) {
		db := pgtest.Open(t, driver, pgtest.NewEmptyURL(t))
		db.SetMaxOpenConns(1)
		for range 2 {
			mustUp(t, db)
			if err := db.PingContext(t.Context()); err != nil {
				t.Fatalf("the pool is unusable after Up: %v", err)
			}
			if n := db.Stats().InUse; n != 0 {
				t.Fatalf("%d connections are still in use", n)
			}
		}
		if got := scan[string](t, db, "SHOW lock_timeout"); got != "0" {
			t.Errorf("lock_timeout of the caller's connection is now %s", got)
		}
		if got := scan[string](t, db, "SHOW search_path"); got != `"$user", public` {
			t.Errorf("search_path of the caller's connection is now %s", got)
		}
	})
}

func TestUpWithoutWorkTakesNoLockAndWritesNothing(t *testing.T) {
	forEachDriver(t, func(t *testing.T, driver string) {
		rawURL := pgtest.NewEmptyURL(t)
		admin := pgtest.Open(t, driver, rawURL)
		mustUp(t, admin)

		user := openAsNewRole(t, admin, driver, rawURL)
		mustExec(t, user, "SET default_transaction_read_only = on")
		err := migrations.Up(t.Context(), user)
		if err == nil || !strings.Contains(err.Error(), "SELECT on leader_schema_migrations") {
			t.Errorf("without any right: got %v, want what right is missing", err)
		}
		mustExec(t, admin, "GRANT SELECT ON leader_schema_migrations TO PUBLIC")

		// While somebody else migrates, and has one step behind them.
		files := withNext("quick", "SELECT 1", "")
		endless := &fstest.MapFile{Data: []byte("SELECT pg_sleep(600)")}
		files[fmt.Sprintf("%04d_endless.up.sql", newest()+2)] = endless
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- migrations.UpFrom(ctx, admin, files) }()
		waitForEndless(t, admin)
		if err := migrations.Up(t.Context(), user); err != nil {
			t.Error(err)
		}
		cancel()
		<-done
	})
}

// openAsNewRole opens a pool of one connection as a role that was granted nothing.
func openAsNewRole(t *testing.T, admin *sql.DB, driver, rawURL string) *sql.DB {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	role := "role_of_" + strings.TrimPrefix(u.Path, "/")
	mustExec(t, admin, fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD 'secret'", role))
	t.Cleanup(func() {
		mustExec(t, admin, "DROP OWNED BY "+role)
		mustExec(t, admin, "DROP ROLE "+role)
	})
	u.User = url.UserPassword(role, "secret")
	db := pgtest.Open(t, driver, u.String())
	db.SetMaxOpenConns(1)
	return db
}

func TestUpNamesTheMissingRight(t *testing.T) {
	forEachDriver(t, func(t *testing.T, driver string) {
		rawURL := pgtest.NewEmptyURL(t)
		admin := pgtest.Open(t, driver, rawURL)
		mustExec(t, admin, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
		err := migrations.Up(t.Context(), openAsNewRole(t, admin, driver, rawURL))
		var state interface{ SQLState() string }
		if !errors.As(err, &state) || state.SQLState() != "42501" ||
			!strings.Contains(err.Error(), "CREATE on the schema") {
			t.Errorf("got %v, want what right is missing, and the driver's error", err)
		}
	})
}

func TestUpRefusesReadOnlyServer(t *testing.T) {
	forEachDriver(t, func(t *testing.T, driver string) {
		rawURL := pgtest.NewEmptyURL(t)
		db := pgtest.Open(t, driver, withParam(t, rawURL, "default_transaction_read_only", "on"))
		err := migrations.Up(t.Context(), db)
		if !errors.Is(err, migrations.ErrReadOnly) {
			t.Fatalf("got %v, want ErrReadOnly", err)
		}
		if exists(t, db, "leader_schema_migrations") {
			t.Error("wrote to a database that is read-only by default")
		}
	})
}

func TestUpRefusesNil(t *testing.T) {
	if err := migrations.Up(t.Context(), nil); err == nil {
		t.Error("a nil db is accepted")
	}
	var none context.Context
	if err := migrations.Up(none, new(sql.DB)); err == nil {
		t.Error("a nil context is accepted")
	}
}

func TestUpReportsClosedPoolAndUnreachableServer(t *testing.T) {
	forEachDriver(t, func(t *testing.T, driver string) {
		db := pgtest.Open(t, driver, "postgres://127.0.0.1:1/nothing?sslmode=disable")
		err := migrations.Up(t.Context(), db)
		if err == nil || !strings.HasPrefix(err.Error(), "migrations: ") {
			t.Errorf("got %v, want an error of this package", err)
		}
		_ = db.Close()
		err = migrations.Up(t.Context(), db)
		if err == nil || !strings.HasPrefix(err.Error(), "migrations: ") {
			t.Errorf("closed: got %v, want an error of this package", err)
		}
	})
}

func TestUpAcceptsNewerVersion(t *testing.T) {
	forEachDriver(t, func(t *testing.T, driver string) {
		rawURL := pgtest.NewEmptyURL(t)
		db := pgtest.Open(t, driver, rawURL)
		files := withNext("newer", "CREATE TABLE newer ()", "DROP TABLE newer")
		if err := migrations.UpFrom(t.Context(), db, files); err != nil {
			t.Fatal(err)
		}
		mustUp(t, pgtest.Open(t, driver, withParam(t, rawURL, "default_transaction_read_only", "on")))
		checkVersion(t, db, newest()+1)
		if !exists(t, db, "newer") {
			t.Error("the older program undid the newer one's table")
		}
	})
}

func TestUpAppliesOnlyWhatIsMissing(t *testing.T) {
	forEachDriver(t, func(t *testing.T, driver string) {
		db := pgtest.Open(t, driver, pgtest.NewEmptyURL(t))
		mustUp(t, db)
		mustExec(t, db, `INSERT INTO leader_lease VALUES ('nightly', 'host:1', 7, now(), now(), now())`)
		next := withNext("next", "CREATE TABLE next ()", "DROP TABLE next")
		if err := migrations.UpFrom(t.Context(), db, next); err != nil {
			t.Fatal(err)
		}
		checkVersion(t, db, newest()+1)
		if got := scan[int](t, db, "SELECT token FROM leader_lease"); got != 7 || !exists(t, db, "next") {
			t.Errorf("the lease's token is %d, want 7, and the next table must be there", got)
		}
	})
}

func TestFailedStepLeavesNothing(t *testing.T) {
	forEachDriver(t, func(t *testing.T, driver string) {
		db := pgtest.Open(t, driver, pgtest.NewEmptyURL(t))
		err := migrations.UpFrom(t.Context(), db,
			withNext("broken", "CREATE TABLE half_done (); SELECT 1/0;", ""))
		var state interface{ SQLState() string }
		if !errors.As(err, &state) || state.SQLState() != "22012" {
			t.Fatalf("got %v, want the driver's division by zero", err)
		}
		for _, table := range []string{"half_done", "leader_lease", "leader_schema_migrations"} {
			if exists(t, db, table) {
				t.Errorf("%s is left behind", table)
			}
		}
		mustUp(t, db)
	})
}

func TestUpRefusesTablesOfUnknownVersion(t *testing.T) {
	forEachDriver(t, func(t *testing.T, driver string) {
		db := pgtest.Open(t, driver, pgtest.NewEmptyURL(t))
		first, err := fs.ReadFile(migrations.FS, "0001_create_leader_lease.up.sql")
		if err != nil {
			t.Fatal(err)
		}
		mustExec(t, db, string(first)) // as any other tool would
		err = migrations.Up(t.Context(), db)
		if err == nil || !strings.Contains(err.Error(), "do not call Up") {
			t.Errorf("got %v, want what is wrong", err)
		}
	})
}

func TestUpWorksWhereSearchPathPoints(t *testing.T) {
	forEachDriver(t, func(t *testing.T, driver string) {
		rawURL := pgtest.NewEmptyURL(t)
		db := pgtest.Open(t, driver, rawURL)
		mustExec(t, db, `CREATE SCHEMA "odd ""schema"`)
		mustExec(t, db, `CREATE SCHEMA later`)
		inSchema := pgtest.Open(t, driver, withParam(t, rawURL, "search_path", `"odd ""schema",public`))
		mustUp(t, inSchema)
		checkVersion(t, inSchema, newest())
		for _, table := range []string{"leader_lease", "leader_schema_migrations"} {
			if !exists(t, db, `"odd ""schema".`+table) || exists(t, db, "public."+table) {
				t.Errorf("%s is not in the first schema of search_path", table)
			}
		}

		// A schema that comes before the one with the tables must not start a second set of leases.
		shadowed := pgtest.Open(t, driver, withParam(t, rawURL, "search_path", `later,"odd ""schema"`))
		mustUp(t, shadowed)
		next := withNext("next", "CREATE TABLE next ()", "")
		if err := migrations.UpFrom(t.Context(), shadowed, next); err != nil {
			t.Fatal(err)
		}
		if !exists(t, db, `"odd ""schema".next`) {
			t.Error("a new table landed away from the others")
		}

		nowhere := pgtest.Open(t, driver, withParam(t, rawURL, "search_path", "nowhere"))
		err := migrations.Up(t.Context(), nowhere)
		if err == nil || !strings.Contains(err.Error(), "search_path") {
			t.Errorf("got %v, want that search_path names no schema", err)
		}
	})
}

func TestConcurrentUpsApplyOnce(t *testing.T) {
	t.Parallel()
	rawURL := pgtest.NewEmptyURL(t)
	errs := make(chan error)
	const starts = 12
	for i := range starts {
		// After a wait under a stricter default isolation the version must not look as it was before.
		// And a statement_timeout made for queries must not end the wait.
		u := withParam(t, rawURL, "default_transaction_isolation",
			[]string{"serializable", "read committed"}[i/2%2])
		db := pgtest.Open(t, pgtest.Drivers[i%2], withParam(t, u, "statement_timeout", "500"))
		go func() {
			errs <- migrations.UpFrom(t.Context(), db, withNext("slow", "SELECT pg_sleep(1)", ""))
		}()
	}
	for range starts {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	checkVersion(t, pgtest.Open(t, "pgx", rawURL), newest()+1)
}

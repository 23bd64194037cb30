package migrations_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/migrations"
)

// helperEnv makes the test binary a program that runs an endless migration, for a test to kill.
const helperEnv = "PGLEADER_TEST_ENDLESS_UP"

func TestMain(m *testing.M) {
	if spec := os.Getenv(helperEnv); spec != "" {
		driver, url, _ := strings.Cut(spec, " ")
		db, err := sql.Open(driver, url)
		if err == nil {
			err = migrations.UpFrom(context.Background(), db, endless())
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	pgtest.Main(m)
}

// forEachDriver runs a test over lib/pq and over pgx.
func forEachDriver(t *testing.T, test func(t *testing.T, driver string)) {
	t.Parallel()
	for _, driver := range pgtest.Drivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			test(t, driver)
		})
	}
}

// withNext is the real files, and one more.
func withNext(name, up, down string) fstest.MapFS {
	files := fstest.MapFS{}
	names, _ := fs.Glob(migrations.FS, "*.sql")
	for _, name := range names {
		text, _ := fs.ReadFile(migrations.FS, name)
		files[name] = &fstest.MapFile{Data: text}
	}
	base := fmt.Sprintf("%04d_%s", newest()+1, name)
	files[base+".up.sql"] = &fstest.MapFile{Data: []byte(up)}
	files[base+".down.sql"] = &fstest.MapFile{Data: []byte(down)}
	return files
}

// endless has a migration that is in the middle of its work for as long as a test can want.
func endless() fstest.MapFS {
	return withNext("endless",
		"CREATE TABLE half_done (); SELECT pg_sleep(600);", "DROP TABLE half_done")
}

// newest counts the up files, which are numbered without gaps.
func newest() int {
	names, _ := fs.Glob(migrations.FS, "*.up.sql")
	return len(names)
}

func mustUp(t *testing.T, db *sql.DB) {
	t.Helper()
	if err := migrations.Up(t.Context(), db); err != nil {
		t.Fatal(err)
	}
}

// mustExec works in a cleanup too, after the end of t.Context.
func mustExec(t *testing.T, db *sql.DB, query string) {
	t.Helper()
	if _, err := db.ExecContext(context.Background(), query); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// scan reads one value. A failed read is fatal.
func scan[T any](t *testing.T, db *sql.DB, query string) T {
	t.Helper()
	var v T
	if err := db.QueryRowContext(t.Context(), query).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

func exists(t *testing.T, db *sql.DB, relation string) bool {
	t.Helper()
	return scan[bool](t, db, "SELECT to_regclass('"+relation+"') IS NOT NULL")
}

// checkVersion tells "version dirty" of the version table.
func checkVersion(t *testing.T, db *sql.DB, want int) {
	t.Helper()
	got := scan[string](t, db,
		"SELECT string_agg(version || ' ' || dirty, ', ') FROM leader_schema_migrations")
	if got != fmt.Sprintf("%d false", want) {
		t.Errorf("version table holds %q, want version %d and clean", got, want)
	}
}

// waitFor polls a query for a boolean until it is true.
func waitFor(t *testing.T, db *sql.DB, query string) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for ; !scan[bool](t, db, query); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never became true: %s", query)
		}
	}
}

// others is the FROM clause of the other connections to a test's database.
const others = ` FROM pg_stat_activity
	WHERE datname = current_database() AND pid <> pg_backend_pid() `

// waitForEndless waits until a migration of endless is in its middle.
func waitForEndless(t *testing.T, db *sql.DB) {
	t.Helper()
	waitFor(t, db, "SELECT count(*) = 1"+others+
		"AND state = 'active' AND query LIKE '%pg_sleep%' AND wait_event = 'PgSleep'")
}

// waitForWaiters waits until n connections wait for an advisory lock.
func waitForWaiters(t *testing.T, db *sql.DB, n int) {
	t.Helper()
	waitFor(t, db, fmt.Sprintf("SELECT count(*) = %d"+others+
		"AND wait_event_type = 'Lock' AND wait_event = 'advisory'", n))
}

func checkLocked(t *testing.T, err error) {
	t.Helper()
	var state interface{ SQLState() string }
	switch {
	case !errors.Is(err, migrations.ErrLocked):
		t.Fatalf("got %v, want ErrLocked", err)
	case !errors.As(err, &state) || state.SQLState() != "55P03":
		t.Errorf("the driver's error is not reachable: %v", err)
	}
}

// withParam adds a parameter to a URL.
func withParam(t *testing.T, rawURL, key, value string) string {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set(key, value)
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20") // pgx takes a plus for a plus
	return u.String()
}

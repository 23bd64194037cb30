package migrations_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/migrations"
)

// cli is the stock migrate command, as a CI job would use it.
type cli struct {
	path string // of the command
	dir  string // where it runs, and where the directory migrations is
	url  string // of the database, without x-migrations-table
}

// buildCLI builds the command of the golang-migrate version in go.mod, with Postgres support only.
// Its packages are of a module that go.mod has anyway, so nothing is added there, and a fresh clone
// downloads nothing more.
func buildCLI(t *testing.T) *cli {
	t.Helper()
	c := &cli{path: filepath.Join(t.TempDir(), "migrate")}
	build := exec.CommandContext(t.Context(), "go", "build", "-tags", "postgres", "-o", c.path,
		"github.com/golang-migrate/migrate/v4/cmd/migrate")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, out)
	}
	return c
}

// at is the command for one database, in a directory with these files.
func (c *cli) at(t *testing.T, rawURL string, files fs.FS) *cli {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "migrations"), files); err != nil {
		t.Fatal(err)
	}
	return &cli{path: c.path, dir: dir, url: rawURL}
}

func (c *cli) command(ctx context.Context, args ...string) *exec.Cmd {
	sep := "?"
	if strings.Contains(c.url, "?") {
		sep = "&"
	}
	database := c.url + sep + "x-migrations-table=leader_schema_migrations"
	args = append([]string{"-path", "migrations", "-database", database}, args...)
	cmd := exec.CommandContext(ctx, c.path, args...)
	cmd.Dir = c.dir
	return cmd
}

func (c *cli) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.command(t.Context(), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("migrate %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestCommandLineToolBesideApplication(t *testing.T) {
	t.Parallel()
	migrate := buildCLI(t)
	rawURL := pgtest.NewEmptyURL(t)
	db := pgtest.Open(t, "postgres", rawURL)
	createApplication(t, db)
	tool := migrate.at(t, rawURL, migrations.FS)

	tool.run(t, "up")
	if got := tool.run(t, "version"); got != strconv.Itoa(newest()) {
		t.Errorf("version is %q, want %d", got, newest())
	}
	if got := tool.run(t, "up"); got != "no change" {
		t.Errorf("up again says %q", got)
	}
	for _, driver := range pgtest.Drivers {
		mustUp(t, pgtest.Open(t, driver, rawURL))
	}
	up := schemaOf(t, db)
	tool.run(t, "down", "-all")
	if exists(t, db, "leader_lease") {
		t.Error("leader_lease is still there after down")
	}
	checkApplication(t, db)
	tool.run(t, "up")
	if got := schemaOf(t, db); got != up {
		t.Errorf("up, down, up gives another schema than up:\n%s\n\nwant:\n%s", got, up)
	}
	checkApplication(t, db)
	checkVersion(t, db, newest())
}

func TestCommandLineToolTakesOverFromUp(t *testing.T) {
	migrate := buildCLI(t)
	forEachDriver(t, func(t *testing.T, driver string) {
		rawURL := pgtest.NewEmptyURL(t)
		db := pgtest.Open(t, driver, rawURL)
		createApplication(t, db)
		mustUp(t, db)
		byUp := schemaOf(t, db)
		tool := migrate.at(t, rawURL, migrations.FS)
		if got := tool.run(t, "up"); got != "no change" {
			t.Errorf("after Up, the tool's up says %q", got)
		}
		tool.run(t, "down", "-all")
		mustUp(t, db) // finds the version table empty
		tool.run(t, "down", "-all")
		tool.run(t, "up")
		if got := schemaOf(t, db); got != byUp {
			t.Errorf("the tool makes another schema than Up:\n%s\n\nwant:\n%s", got, byUp)
		}
		checkApplication(t, db)
	})
}

func TestEachUpIsUndoneByItsDown(t *testing.T) {
	t.Parallel()
	migrate := buildCLI(t)
	rawURL := pgtest.NewEmptyURL(t)
	db := pgtest.Open(t, "pgx", rawURL)
	tool := migrate.at(t, rawURL, migrations.FS)
	for version := 1; version <= newest(); version++ {
		before := schemaOf(t, db)
		tool.run(t, "up", "1")
		after := schemaOf(t, db)
		if after == before {
			t.Errorf("version %d changes nothing that the comparison sees", version)
		}
		tool.run(t, "down", "1")
		if got := schemaOf(t, db); got != before {
			t.Errorf("the down of version %d leaves\n%s\n\nwant:\n%s", version, got, before)
		}
		tool.run(t, "up", "1")
		if got := schemaOf(t, db); got != after {
			t.Errorf("version %d applied again gives\n%s\n\nwant:\n%s", version, got, after)
		}
	}
}

// schemaOf describes everything in the schema public but the version table, from the catalog.
func schemaOf(t *testing.T, db *sql.DB) string {
	t.Helper()
	return scan[string](t, db, `
WITH relations AS (
    SELECT oid, relname, relkind, reloptions, relpersistence, relacl, relreplident FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relname NOT LIKE 'leader_schema_migrations%'
), lines AS (
    SELECT format('%s %s %s %s %s %s',
        relname, relkind, relpersistence, relreplident, reloptions, relacl) AS line
    FROM relations
    UNION ALL
    SELECT format('%s.%s %s %s %s %s %s',
        relname, attname, format_type(atttypid, atttypmod), attnotnull,
        attcollation::regcollation, attstorage, pg_get_expr(adbin, adrelid))
    FROM relations r JOIN pg_attribute a ON attrelid = r.oid
    LEFT JOIN pg_attrdef d ON adrelid = r.oid AND adnum = attnum
    WHERE attnum > 0 AND NOT attisdropped
    UNION ALL
    SELECT format('%s %s %s', relname, conname, pg_get_constraintdef(c.oid))
    FROM relations r JOIN pg_constraint c ON conrelid = r.oid
    UNION ALL
    SELECT pg_get_indexdef(indexrelid) FROM relations r JOIN pg_index ON indexrelid = r.oid
    UNION ALL
    SELECT format('%s %s', relname, pg_get_triggerdef(t.oid))
    FROM relations r JOIN pg_trigger t ON tgrelid = r.oid
    UNION ALL
    SELECT format('%s.%s: %s', relname, objsubid, description)
    FROM relations r JOIN pg_description d ON objoid = r.oid
    UNION ALL
    SELECT pg_get_functiondef(oid) FROM pg_proc
    WHERE pronamespace = 'public'::regnamespace AND prokind IN ('f', 'p')
    UNION ALL
    SELECT format('type %s %s', typname, typtype) FROM pg_type
    WHERE typnamespace = 'public'::regnamespace AND typname NOT LIKE '%leader_schema_migrations'
)
SELECT coalesce(string_agg(line, E'\n' ORDER BY line), '') FROM lines`)
}

func TestUpWaitsForCommandLineTool(t *testing.T) {
	migrate := buildCLI(t)
	forEachDriver(t, func(t *testing.T, driver string) {
		rawURL := pgtest.NewEmptyURL(t)
		db := pgtest.Open(t, driver, rawURL)
		tool := migrate.at(t, rawURL, endless())
		running := tool.command(t.Context(), "up")
		if err := running.Start(); err != nil {
			t.Fatal(err)
		}
		defer running.Wait()
		defer running.Process.Kill()
		waitForEndless(t, db)

		// The tool has marked its version dirty, which is no reason yet to call for a person.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		checkLocked(t, migrations.UpFrom(ctx, db, endless()))

		// Killed in the middle of the file, it leaves a version that is really dirty.
		if err := running.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		waitFor(t, db, "SELECT count(pg_terminate_backend(pid)) > 0"+others+"AND query LIKE '%pg_sleep%'")
		next := withNext("endless", "CREATE TABLE half_done ()", "DROP TABLE half_done")
		dirty := checkDirty(t, migrations.UpFrom(t.Context(), db, next), newest()+1)
		if exists(t, db, "half_done") {
			t.Fatal("a file is not one transaction, as the message says")
		}
		tool.repair(t, dirty, ".up.sql is not applied")
		if err := migrations.UpFrom(t.Context(), db, next); err != nil {
			t.Error(err)
		}
		checkVersion(t, db, newest()+1)
	})
}

func TestCommandLineToolWaitsForUp(t *testing.T) {
	migrate := buildCLI(t)
	forEachDriver(t, func(t *testing.T, driver string) {
		rawURL := pgtest.NewEmptyURL(t)
		db := pgtest.Open(t, driver, rawURL)
		tool := migrate.at(t, rawURL, migrations.FS)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- migrations.UpFrom(ctx, pgtest.Open(t, driver, rawURL), endless()) }()
		waitForEndless(t, db)
		var out bytes.Buffer
		waiting := tool.command(t.Context(), "up")
		waiting.Stdout, waiting.Stderr = &out, &out
		if err := waiting.Start(); err != nil {
			t.Fatal(err)
		}
		waitForWaiters(t, db, 1)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := waiting.Wait(); err != nil {
			t.Errorf("the tool failed beside Up: %v\n%s", err, out.String())
		}
		checkVersion(t, db, newest())
	})
}

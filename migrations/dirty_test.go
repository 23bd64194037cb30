package migrations_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/migrations"
)

func checkDirty(t *testing.T, err error, version int) *migrations.DirtyError {
	t.Helper()
	var dirty *migrations.DirtyError
	if !errors.As(err, &dirty) || dirty.Version != version {
		t.Fatalf("got %v, want a DirtyError of version %d", err, version)
	}
	return dirty
}

// repair does what the message tells a person who found that: runs the command by a shell, where
// the message is printed.
func (c *cli) repair(t *testing.T, dirty *migrations.DirtyError, found string) {
	t.Helper()
	var command string
	lines := strings.Split(dirty.Error(), "\n")
	for i, line := range lines[:len(lines)-1] {
		if strings.HasPrefix(line, "if ") && strings.HasSuffix(line, found+":") {
			command = strings.TrimSpace(lines[i+1])
		}
	}
	if !strings.HasPrefix(command, "migrate ") {
		t.Fatalf("no command for %q in:\n%v", found, dirty)
	}
	bare, params, _ := strings.Cut(c.url, "?")
	sh := exec.CommandContext(t.Context(), "sh", "-c", command)
	sh.Dir = c.dir
	sh.Env = append(os.Environ(),
		"PATH="+filepath.Dir(c.path)+":"+os.Getenv("PATH"), "DATABASE_URL="+bare)
	if params != "" {
		sh.Env = append(sh.Env, "PGSSLMODE=disable")
	}
	if out, err := sh.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

func TestDirtyVersionIsRepairedByThePrintedCommand(t *testing.T) {
	t.Parallel()
	migrate := buildCLI(t)
	last := newest()
	files := withNext("next", "CREATE TABLE next ()", "DROP TABLE next")
	for i, test := range []struct {
		name    string
		schema  string
		applied int // the files that are in the database
		dirty   int // what the tool left in the version table
		found   string
	}{
		{"killed before first", "public", 0, 1, "no file is applied"},
		{"killed after first", "public", 1, 1, ".up.sql is applied, nothing after it"},
		{"killed before last", "public", last, last + 1, "next.up.sql is not applied"},
		{"killed after last", "public", last + 1, last + 1, "next.up.sql is applied"},
		{"killed before down", "public", last + 1, last, "next.up.sql is applied"},
		{"killed before down of first", "public", 1, -1, "lease.up.sql is applied"},
		{"killed after down of first", "public", 0, -1, "no file is applied"},
		{"other schema", "workers", 1, 1, ".up.sql is applied, nothing after it"},
		{"odd schema", `o'dd $HOME & "s`, 0, 1, "no file is applied"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			driver := pgtest.Drivers[i%len(pgtest.Drivers)]
			rawURL := pgtest.NewEmptyURL(t)
			tool := migrate.at(t, rawURL, files)
			quoted := `"` + strings.ReplaceAll(test.schema, `"`, `""`) + `"`
			mustExec(t, pgtest.Open(t, driver, rawURL), "CREATE SCHEMA IF NOT EXISTS "+quoted)
			db := pgtest.Open(t, driver, withParam(t, rawURL, "search_path", quoted))

			if test.applied == 0 {
				mustExec(t, db, "CREATE TABLE leader_schema_migrations "+
					"(version bigint NOT NULL PRIMARY KEY, dirty boolean NOT NULL)")
			} else if err := migrations.UpFrom(t.Context(), db, firstOf(files, test.applied)); err != nil {
				t.Fatal(err)
			}
			mustExec(t, db, fmt.Sprintf("DELETE FROM leader_schema_migrations; "+
				"INSERT INTO leader_schema_migrations VALUES (%d, true)", test.dirty))

			dirty := checkDirty(t, migrations.UpFrom(t.Context(), db, files), test.dirty)
			if dirty.Schema != test.schema {
				t.Errorf("schema is %q, want %q", dirty.Schema, test.schema)
			}
			tool.repair(t, dirty, test.found)
			if err := migrations.UpFrom(t.Context(), db, files); err != nil {
				t.Fatal(err)
			}
			checkVersion(t, db, last+1)
			if !exists(t, db, "next") || !exists(t, db, "leader_lease") {
				t.Error("a table is missing after the repair")
			}
		})
	}
}

// firstOf has the files of the first n versions only.
func firstOf(files fs.FS, n int) fs.FS {
	first := fstest.MapFS{}
	for version := 1; version <= n; version++ {
		names, _ := fs.Glob(files, fmt.Sprintf("%04d_*.up.sql", version))
		for _, name := range names {
			text, _ := fs.ReadFile(files, name)
			first[name] = &fstest.MapFile{Data: text}
		}
	}
	return first
}

func TestDirtyVersionOfNewerReleaseSaysSo(t *testing.T) {
	forEachDriver(t, func(t *testing.T, driver string) {
		db := pgtest.Open(t, driver, pgtest.NewEmptyURL(t))
		mustUp(t, db)
		mustExec(t, db, "UPDATE leader_schema_migrations SET version = 99, dirty = true")
		dirty := checkDirty(t, migrations.Up(t.Context(), db), 99)
		for _, want := range []string{
			"newer release", `x-migrations-table=leader_schema_migrations" force 99`, `" force 98`,
		} {
			if !strings.Contains(dirty.Error(), want) {
				t.Errorf("the message lacks %q:\n%v", want, dirty)
			}
		}
	})
}

// Package schema is what the tool says of pgleader's tables, and the SQL that it prints to make
// them.
package schema

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/pgleader/pgleader/migrations"
)

// Describe says at which version the tables of a database are.
func Describe(s migrations.State) string {
	switch {
	case s.Dirty:
		return fmt.Sprintf("the database is at version %d of %d, dirty", s.Version, s.Newest)
	case s.Version > s.Newest:
		return fmt.Sprintf("the database is at version %d, newer than this program's %d",
			s.Version, s.Newest)
	case s.Version == 0:
		return "the database has none of pgleader's tables"
	}
	return fmt.Sprintf("the database is at version %d of %d", s.Version, s.Newest)
}

// Scripts are the statements of all versions, oldest first.
type Scripts struct{ up, down []script }

type script struct {
	version    int
	name, text string
}

// Read reads the statements that this program has with it.
func Read() (*Scripts, error) {
	up, err := read("up")
	if err != nil {
		return nil, err
	}
	down, err := read("down")
	if err != nil {
		return nil, err
	}
	return &Scripts{up, down}, nil
}

// Newest is the version of the tables that this program makes.
func (s *Scripts) Newest() int { return s.up[len(s.up)-1].version }

// Up is the SQL that brings a database from a version, 0 for an empty one, to the newest. It is one
// transaction, and keeps the version as migrations.Up and golang-migrate do.
func (s *Scripts) Up(from int) string {
	return fmt.Sprintf(`BEGIN;

%sCREATE TABLE IF NOT EXISTS leader_schema_migrations (
    version bigint NOT NULL PRIMARY KEY,
    dirty boolean NOT NULL
);
DELETE FROM leader_schema_migrations;
INSERT INTO leader_schema_migrations (version, dirty) VALUES (%d, false);

COMMIT;
`, join(s.up, func(version int) bool { return version > from }), s.Newest())
}

// Down is the SQL that takes everything away from a database at a version, in one transaction.
func (s *Scripts) Down(from int) string {
	down := slices.Clone(s.down)
	slices.Reverse(down)
	return fmt.Sprintf("BEGIN;\n\n%sDROP TABLE leader_schema_migrations;\n\nCOMMIT;\n",
		join(down, func(version int) bool { return version <= from }))
}

// read reads the files of one direction, whose names begin with the version.
func read(direction string) ([]script, error) {
	names, err := fs.Glob(migrations.FS, "*."+direction+".sql")
	if err != nil {
		return nil, err
	}
	scripts := make([]script, len(names))
	for i, name := range names {
		number, _, _ := strings.Cut(name, "_")
		version, err := strconv.Atoi(number)
		if err != nil {
			return nil, err
		}
		text, err := fs.ReadFile(migrations.FS, name)
		if err != nil {
			return nil, err
		}
		scripts[i] = script{version, name, string(text)}
	}
	return scripts, nil
}

func join(scripts []script, wanted func(version int) bool) string {
	var b strings.Builder
	for _, s := range scripts {
		if wanted(s.version) {
			fmt.Fprintf(&b, "-- %s\n\n%s\n", s.name, s.text)
		}
	}
	return b.String()
}

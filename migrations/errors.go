package migrations

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/golang-migrate/migrate/v4/source"
)

// ErrLocked is returned by [Up] when another migration, or a transaction that uses the tables, did
// not end in time. Nothing has changed, and running Up again is safe.
var ErrLocked = errors.New("migrations: timed out waiting for a lock")

// ErrReadOnly is returned by [Up] when there is something to apply but the server is a standby or
// takes no writes for now.
var ErrReadOnly = errors.New("migrations: the server is read-only")

// DirtyError is returned by [Up] when the golang-migrate command line tool was killed in the middle
// of a file. Nobody recorded then whether the file was applied. A person has to look; the text says
// at what, and holds the commands for what they find. Up itself leaves nothing dirty.
type DirtyError struct {
	Version int    // the version the tool was going to; -1 if it was going back to before the first
	Schema  string // the schema that holds leader_schema_migrations

	files map[int]string // the up files this program knows, by version
}

// Error tells what to look at and gives one command line for each thing that may be found.
func (e *DirtyError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "migrations: %s.%s is marked dirty at version %d: a migrate command was killed "+
		"on its way there, and none is running now; each file is one transaction, applied as a whole or "+
		"not at all; look (for a table: \\d in psql) which is the last one whose changes are in the "+
		"database, run the one command that fits, then start this program again",
		e.Schema, versionTable, e.Version)

	// The tool records where it goes before it goes there: up from the version before, or down from
	// the version after.
	file, known := e.files[e.Version]
	next, hasNext := e.files[max(e.Version, 0)+1]
	if !known && e.Version > 0 {
		fmt.Fprintf(&b, " (version %d is of a newer release than this program: use that release's files)",
			e.Version)
		file = fmt.Sprintf("%04d_….up.sql", e.Version)
	}
	last := ""
	if hasNext {
		e.command(&b, next+" is applied", max(e.Version, 0)+1)
		last = ", nothing after it"
	}
	if e.Version > 0 {
		e.command(&b, file+" is applied"+last, e.Version)
	}
	if e.Version > 1 {
		e.command(&b, file+" is not applied", e.Version-1)
	} else {
		e.command(&b, "no file is applied", -1)
	}
	fmt.Fprint(&b, "\n(migrations is the directory of these files, in a copy of "+
		"github.com/pgleader/pgleader; where the URL has parameters already, write & for ?)")
	return b.String()
}

var plainIdent = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

func (e *DirtyError) command(b *strings.Builder, found string, version int) {
	// The tool looks in the first schema of search_path only. Everything but letters is escaped, so
	// the shell sees no quotes.
	schema := e.Schema
	switch {
	case schema == "public":
		schema = ""
	case plainIdent.MatchString(schema):
		schema = "search_path=" + schema + "&"
	default:
		schema = "search_path=" +
			strings.ReplaceAll(url.QueryEscape(quoteIdent(schema)), "+", "%20") + "&"
	}
	force := strconv.Itoa(version)
	if version < 0 {
		force = "-- -1" // a bare -1 is taken for a flag
	}
	fmt.Fprintf(b, "\nif %s:\n    migrate -path migrations "+
		"-database \"$DATABASE_URL?%sx-migrations-table=%s\" force %s",
		found, schema, versionTable, force)
}

func upFiles(files fs.FS) map[int]string {
	names := map[int]string{}
	all, _ := fs.Glob(files, "*.up.sql") // fails for a malformed pattern only
	for _, name := range all {
		if m, err := source.DefaultParse(name); err == nil {
			names[int(m.Version)] = name
		}
	}
	return names
}

// explainLock turns a failure to get the migration lock into ErrLocked where it is one.
func explainLock(ctx context.Context, waited time.Duration, ids []string, err error) error {
	timedOut := errors.Is(ctx.Err(), context.DeadlineExceeded)
	if sqlState(err) != "55P03" && !timedOut {
		return explain(ctx, "take the migration lock", err)
	}
	if timedOut && !errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w (%w)", ctx.Err(), err) // lib/pq has the server's "canceling statement" only
	}
	return fmt.Errorf("%w: another migration has been running for %s or more; nothing has changed, "+
		"running this again is safe, a longer deadline waits longer; who it is: "+
		"SELECT * FROM pg_stat_activity JOIN pg_locks USING (pid) "+
		"WHERE locktype = 'advisory' AND objid IN (%s): %w",
		ErrLocked, waited.Round(time.Millisecond), strings.Join(ids, ", "), err)
}

// explain adds what a person can do about the failures that have a known cause.
func explain(ctx context.Context, doing string, err error) error {
	switch sqlState(err) {
	case "55P03": // lock_not_available
		return fmt.Errorf("%w: %s: a transaction that has used the table is still open; "+
			"running this again is safe: %w", ErrLocked, doing, err)
	case "25006": // read_only_sql_transaction
		return fmt.Errorf("%w: %s: run this against the primary: %w", ErrReadOnly, doing, err)
	case "42501": // insufficient_privilege
		return fmt.Errorf("migrations: %s: the role lacks a right: to migrate it must own the tables "+
			"and have CREATE on the schema; after that SELECT on %s is enough: %w",
			doing, versionTable, err)
	case "42P07": // duplicate_table
		return fmt.Errorf("migrations: %s: the tables are there but %s does not say so; "+
			"if another tool applies the files, do not call Up: %w", doing, versionTable, err)
	}
	if end := ctx.Err(); end != nil && !errors.Is(err, end) {
		err = fmt.Errorf("%w (%w)", end, err)
	}
	return fmt.Errorf("migrations: %s: %w", doing, err)
}

// sqlState reads the error code through the method that the error types of both drivers have.
func sqlState(err error) string {
	var e interface{ SQLState() string }
	if errors.As(err, &e) {
		return e.SQLState()
	}
	return ""
}

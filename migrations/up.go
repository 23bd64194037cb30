package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
)

// versionTable is not golang-migrate's default schema_migrations, because that one belongs to the
// application.
const versionTable = "leader_schema_migrations"

const (
	// defaultWait bounds the wait for another migration when ctx has no deadline.
	defaultWait = 15 * time.Second
	// tableWait bounds the wait for a table. It is short, because whatever asks for the table after us
	// queues behind us, and renewals do. A leader must not lose its lease to a migration that waits
	// for somebody's long transaction.
	tableWait = 2 * time.Second
	// abandonAfter is how long after ctx's end Up still waits for the driver to give up by itself.
	abandonAfter = 2 * time.Second
)

// Up brings the tables of pgleader to the newest version this program knows. Call it at every
// start: when there is nothing to do it costs one read, takes no lock and writes nothing. So a
// read-only server is fine, or a role that may only use the tables and read
// leader_schema_migrations. Up also returns nil if the database is at a newer version than this
// program knows. An old instance that restarts during a rolling deploy must come up.
//
// All that is missing is applied in one transaction on one connection of db. It happens as a whole
// or not at all, also when the process is killed half-way. A pool of one connection will do, and so
// will a pooler in transaction mode. (Where that allows no prepared statements, pgx needs
// default_query_exec_mode=exec, as for every query.) Up never closes db. The version is kept in the
// table leader_schema_migrations, never in the application's own schema_migrations.
//
// The tables are where the connection's search_path finds leader_schema_migrations; where it finds
// none, they are created in the path's first schema. So a schema put in front of the path later
// does not start a second, empty set of leases.
//
// Concurrent calls, and the golang-migrate command line tool, wait for each other: until the
// deadline of ctx, or for 15 s when it has none. A step waits at most 2 s for a table that is in
// use. Either way the error is [ErrLocked], nothing has changed, and running Up again is safe. A
// version that the command line tool left half-done is a [*DirtyError], which says how to repair
// it. [ErrReadOnly] means that there is something to do but the server takes no writes. The
// driver's error stays reachable with [errors.As] and the end of ctx with [errors.Is].
func Up(ctx context.Context, db *sql.DB) error {
	if ctx == nil || db == nil {
		return errors.New("migrations: Up needs a context and an open *sql.DB, got nil")
	}
	return upFrom(ctx, db, FS)
}

// upFrom is Up for any set of files.
func upFrom(ctx context.Context, db *sql.DB, files fs.FS) error {
	return bounded(ctx, func() error { return up(ctx, db, files) })
}

// bounded returns soon after ctx ends even where the driver does not: lib/pq goes on reading from a
// connection that the network has swallowed (lib/pq#620). What it leaves behind then can't commit
// any more, because its transaction is bound to ctx.
func bounded(ctx context.Context, change func() error) error {
	done := make(chan error, 1)
	go func() { done <- change() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	grace := time.NewTimer(abandonAfter)
	defer grace.Stop()
	select {
	case err := <-done:
		return err
	case <-grace.C:
		return fmt.Errorf("migrations: the server does not answer: %w", ctx.Err())
	}
}

func up(ctx context.Context, db *sql.DB, files fs.FS) error {
	src, newest, err := open(files)
	if err != nil {
		return err
	}
	version, dirty, err := look(ctx, db)
	if err != nil || version >= newest && !dirty {
		return err
	}
	// A dirty version is no error yet: the command line tool marks it so while it is at work. It
	// counts once we have the lock.

	if err := writable(ctx, db, version, newest, dirty); err != nil {
		return err
	}
	return locked(ctx, db, files, func(tx *sql.Tx, table string, version int) error {
		if version >= newest {
			return nil
		}
		m, err := migrate.NewWithInstance("pgleader", src, "postgres",
			&engine{ctx: ctx, tx: tx, table: table})
		if err != nil {
			return fmt.Errorf("migrations: %w", err)
		}
		for version < newest {
			// One step a call: a failed Migrate.Up leaves the goroutines behind that have read ahead.
			if err := m.Steps(1); err != nil {
				return explain(ctx,
					fmt.Sprintf("apply the version after %d (rolled back, nothing has changed)", version), err)
			}
			if version, _, err = readVersion(ctx, tx, table); err != nil {
				return explain(ctx, "read the version", err)
			}
		}
		return nil
	})
}

// lock begins the part that only one process may do, and tells the schema it is about. The locks go
// with the transaction: no killed process, no pooler that changes connections can strand one.
func lock(ctx context.Context, tx *sql.Tx) (schema string, err error) {
	var name string
	err = tx.QueryRowContext(ctx, `
		SELECT current_database(), coalesce((
		    SELECT n.nspname FROM pg_catalog.pg_class c
		    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		    WHERE c.oid = to_regclass('`+versionTable+`')), current_schema(), '')`).Scan(&name, &schema)
	if err != nil {
		return "", explain(ctx, "look for the schema", err)
	}
	if schema == "" {
		return "", errors.New("migrations: search_path names no schema that exists and " +
			"that this role may use")
	}

	// golang-migrate's driver makes its lock from the name of the database. Opened by a URL, as the
	// command line tool does, it takes the URL's path for the name, with its slash. Opened by a
	// connection, it takes the plain name. Both must be kept out.
	ids := make([]string, 0, 2)
	for _, n := range []string{"/" + name, name} {
		id, err := database.GenerateAdvisoryLockId(n, schema, versionTable)
		if err != nil {
			return "", fmt.Errorf("migrations: name the lock: %w", err)
		}
		ids = append(ids, id)
	}
	if _, err := tx.ExecContext(ctx, sessionSettings); err != nil {
		return "", explain(ctx, "take the migration lock", err)
	}
	start := time.Now()
	for _, id := range ids {
		err := setLockTimeout(ctx, tx, waitLeft(ctx, start))
		if err == nil {
			_, err = tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock("+id+")") //nolint:gosec // a number
		}
		if err != nil {
			return "", explainLock(ctx, time.Since(start), ids, err)
		}
	}
	return schema, nil
}

// A role's statement_timeout is made for queries: it would end the wait, or a step, with an error
// that says nothing. And a server that does not look after its client would go on with the
// statement of a killed process, and keep its lock. That setting is there since PostgreSQL 14, and
// an error on systems that can't tell that a client has gone.
const sessionSettings = `
SET LOCAL statement_timeout = 0;
SELECT set_config(name, '1000', true) FROM pg_catalog.pg_settings
WHERE name = 'client_connection_check_interval' AND version() LIKE '%linux%'`

// waitLeft ends the wait a little before ctx does, so that the server says it timed out and the
// connection stays usable.
func waitLeft(ctx context.Context, start time.Time) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return time.Until(start.Add(defaultWait))
	}
	left := time.Until(deadline)
	return left - min(left/10, 500*time.Millisecond)
}

func setLockTimeout(ctx context.Context, tx *sql.Tx, d time.Duration) error {
	// 0 would mean for ever, and Postgres keeps the number in 32 bits.
	ms := max(1, min(d.Milliseconds(), math.MaxInt32))
	_, err := tx.ExecContext(ctx, fmt.Sprintf("SET LOCAL lock_timeout = %d", ms))
	return err
}

// prepare makes the transaction fit for the steps and reads the version they start from.
func prepare(
	ctx context.Context, tx *sql.Tx, schema, table string,
) (version int, dirty bool, err error) {
	if err := setLockTimeout(ctx, tx, tableWait); err != nil {
		return 0, false, explain(ctx, "set lock_timeout", err)
	}
	// The files name no schema. Without this a new table would land in the path's first schema, away
	// from the others.
	if _, err := tx.ExecContext(ctx, "SET LOCAL search_path = "+quoteIdent(schema)); err != nil {
		return 0, false, explain(ctx, "set search_path", err)
	}
	// Not to_regclass: it answers from the session's cache, which has not heard of a table made while
	// we waited for the lock.
	var exists bool
	err = tx.QueryRowContext(ctx, `
		SELECT EXISTS (SELECT FROM pg_catalog.pg_class c
		JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = current_schema() AND c.relname = '`+versionTable+`')`).Scan(&exists)
	if err != nil {
		return 0, false, explain(ctx, "look for "+table, err)
	}
	if !exists {
		const columns = " (version bigint NOT NULL PRIMARY KEY, dirty boolean NOT NULL)"
		create := "CREATE TABLE " + table + columns //nolint:gosec // quoted
		if _, err := tx.ExecContext(ctx, create); err != nil {
			return 0, false, explain(ctx, "create "+table, err)
		}
	}
	version, dirty, err = readVersion(ctx, tx, table)
	if err != nil {
		return 0, false, explain(ctx, "read the version", err)
	}
	return version, dirty, nil
}

type rowQuerier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// readVersion gives -1 for "nothing applied", as golang-migrate does.
func readVersion(
	ctx context.Context, q rowQuerier, table string,
) (version int, dirty bool, err error) {
	version = database.NilVersion
	err = q.QueryRowContext(ctx, "SELECT version, dirty FROM "+table+" LIMIT 1").Scan(&version, &dirty)
	if errors.Is(err, sql.ErrNoRows) {
		return database.NilVersion, false, nil
	}
	return version, dirty, err
}

func quoteIdent(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"

	"github.com/golang-migrate/migrate/v4/source"
	"github.com/golang-migrate/migrate/v4/source/iofs"
)

// open reads the files and tells the newest version among them.
func open(files fs.FS) (source.Driver, int, error) {
	src, err := iofs.New(files, ".")
	if err != nil {
		return nil, 0, fmt.Errorf("migrations: read the files: %w", err)
	}
	newest, err := newestVersion(src)
	if err != nil {
		return nil, 0, fmt.Errorf("migrations: read the files: %w", err)
	}
	return src, newest, nil
}

func newestVersion(src source.Driver) (int, error) {
	v, err := src.First()
	for err == nil {
		var next uint
		if next, err = src.Next(v); errors.Is(err, fs.ErrNotExist) {
			return int(v), nil
		}
		v = next
	}
	return 0, err
}

// look reads the version without a lock. A database that was never migrated has the version -1.
func look(ctx context.Context, db *sql.DB) (version int, dirty bool, err error) {
	// A pool whose connections are all in use, or a version table that somebody has locked, must not
	// hang a start for ever.
	ctx, cancel := context.WithTimeout(ctx, defaultWait)
	defer cancel()
	version, dirty, err = readVersion(ctx, db, versionTable)
	if err != nil && sqlState(err) != "42P01" { // undefined_table: never migrated
		return version, dirty, explain(ctx, "read the version", err)
	}
	return version, dirty, nil
}

// writable asks before BEGIN, because lib/pq begins READ WRITE, which overrides a default of
// read-only and fails on a standby.
func writable(ctx context.Context, db *sql.DB, version, wanted int, dirty bool) error {
	ctx, cancel := context.WithTimeout(ctx, defaultWait)
	defer cancel()
	var readOnly string
	if err := db.QueryRowContext(ctx, "SHOW transaction_read_only").Scan(&readOnly); err != nil {
		return explain(ctx, "ask whether the server takes writes", err)
	}
	if readOnly == "on" {
		return fmt.Errorf("%w, and the database is at version %d (dirty: %t) of %d: "+
			"run this against the primary first", ErrReadOnly, version, dirty, wanted)
	}
	return nil
}

// locked runs change in one transaction that holds the migration lock, from a version that is not
// dirty, and commits it.
func locked(
	ctx context.Context, db *sql.DB, files fs.FS,
	change func(tx *sql.Tx, table string, version int) error,
) error {
	// After the wait for the lock the version must be seen as the other side left it, whatever the
	// default isolation is.
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return explain(ctx, "begin", err)
	}
	defer tx.Rollback()

	schema, err := lock(ctx, tx)
	if err != nil {
		return err
	}
	table := quoteIdent(schema) + "." + versionTable
	version, dirty, err := prepare(ctx, tx, schema, table)
	if err != nil {
		return err
	}
	if dirty {
		return &DirtyError{Version: version, Schema: schema, files: upFiles(files)}
	}
	if err := change(tx, table, version); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return explain(ctx, "commit", err)
	}
	return nil
}

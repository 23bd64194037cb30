package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"

	"github.com/golang-migrate/migrate/v4/database"
)

// engine lets golang-migrate run its steps in a transaction that is begun, locked and committed by
// Up. golang-migrate's own Postgres driver would import lib/pq into every program that uses pgx,
// and close the caller's pool. It would also wait for its lock without end, and hold it by session,
// which a pooler in transaction mode strands.
type engine struct {
	ctx   context.Context // the interface has no place for it
	tx    *sql.Tx
	table string
}

var _ database.Driver = (*engine)(nil)

func (e *engine) Lock() error   { return nil }
func (e *engine) Unlock() error { return nil }
func (e *engine) Close() error  { return nil }

func (e *engine) Open(string) (database.Driver, error) {
	return nil, errors.New("migrations: the engine works in a transaction and opens no URL")
}

func (e *engine) Drop() error {
	return errors.New("migrations: the engine drops nothing")
}

func (e *engine) Run(migration io.Reader) error {
	text, err := io.ReadAll(migration)
	if err != nil {
		return err
	}
	// Without arguments both drivers send the text as it is, however many statements it holds.
	_, err = e.tx.ExecContext(e.ctx, string(text))
	return err
}

// SetVersion deletes and inserts, where golang-migrate truncates: TRUNCATE would keep every reader
// waiting until we commit.
func (e *engine) SetVersion(version int, dirty bool) error {
	if dirty {
		return nil // nobody can see us half-way
	}
	stmt := "DELETE FROM " + e.table //nolint:gosec // quoted
	if version >= 0 {
		stmt += fmt.Sprintf("; INSERT INTO %s (version, dirty) VALUES (%d, false)", e.table, version)
	}
	if _, err := e.tx.ExecContext(e.ctx, stmt); err != nil {
		return fmt.Errorf("set version %d: %w", version, err)
	}
	return nil
}

func (e *engine) Version() (version int, dirty bool, err error) {
	return readVersion(e.ctx, e.tx, e.table)
}

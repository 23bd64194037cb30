package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"

	"github.com/golang-migrate/migrate/v4"
)

// State says at which version a database is.
type State struct {
	Version int  // 0 if nothing is applied
	Newest  int  // the newest version that this program knows
	Dirty   bool // a golang-migrate command is on its way to Version, or was killed; see [DirtyError]
}

// Version asks at which version the database is. It takes no lock and writes nothing.
func Version(ctx context.Context, db *sql.DB) (State, error) {
	if ctx == nil || db == nil {
		return State{}, errors.New("migrations: Version needs a context and an open *sql.DB, got nil")
	}
	_, newest, err := open(FS)
	if err != nil {
		return State{}, err
	}
	state := State{Newest: newest}
	err = bounded(ctx, func() error {
		version, dirty, err := look(ctx, db)
		state.Version, state.Dirty = max(0, version), dirty
		return err
	})
	if err != nil { // a look that was left behind may still write to state
		return State{Newest: newest}, err
	}
	return state, nil
}

// Down takes back every version above target, newest first. With target 0 everything goes, the
// version table too. All leases, tokens and slots in the tables that it drops are lost. So stop the
// workers first, and never run it only to run [Up] again: tokens would start anew.
//
// Like Up it is one transaction on one connection and waits for other migrations and for tables in
// use. It returns the same errors, and finds the schema in the same way. It refuses a database at a
// newer version than this program knows.
func Down(ctx context.Context, db *sql.DB, target int) error {
	if ctx == nil || db == nil {
		return errors.New("migrations: Down needs a context and an open *sql.DB, got nil")
	}
	return bounded(ctx, func() error { return down(ctx, db, FS, max(0, target)) })
}

func down(ctx context.Context, db *sql.DB, files fs.FS, target int) error {
	src, newest, err := open(files)
	if err != nil {
		return err
	}
	version, dirty, err := look(ctx, db)
	if err != nil || version <= target && version > 0 && !dirty {
		return err
	}
	var exists bool
	find := "SELECT to_regclass('" + versionTable + "') IS NOT NULL"
	if err := db.QueryRowContext(ctx, find).Scan(&exists); err != nil {
		return explain(ctx, "look for "+versionTable, err)
	}
	if !exists {
		return nil
	}
	if err := writable(ctx, db, version, target, dirty); err != nil {
		return err
	}
	return locked(ctx, db, files, func(tx *sql.Tx, table string, version int) error {
		if version > newest {
			return fmt.Errorf("migrations: the database is at version %d, of a newer release than "+
				"this program, which knows %d: use that release", version, newest)
		}
		m, err := migrate.NewWithInstance("pgleader", src, "postgres",
			&engine{ctx: ctx, tx: tx, table: table})
		if err != nil {
			return fmt.Errorf("migrations: %w", err)
		}
		for version > target {
			if err := m.Steps(-1); err != nil {
				return explain(ctx,
					fmt.Sprintf("take back version %d (rolled back, nothing has changed)", version), err)
			}
			if version, _, err = readVersion(ctx, tx, table); err != nil {
				return explain(ctx, "read the version", err)
			}
		}
		if target > 0 {
			return nil
		}
		if _, err := tx.ExecContext(ctx, "DROP TABLE "+table); err != nil {
			return explain(ctx, "drop "+table, err)
		}
		return nil
	})
}

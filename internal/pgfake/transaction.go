package pgfake

import (
	"context"
	"database/sql"
	"errors"
	"maps"

	"github.com/pgleader/pgleader/db"
)

// A transaction is one that is open at the server, under READ COMMITTED. It has the methods of
// db.Querier that can be called in it. What they change is nobody else's to see before the commit.
type transaction struct {
	path   *Path
	guards []string // the jobs whose takeover it holds off
	slots  map[slotKey]*db.LeaderSlot
	writes []func()
	failed bool // since a statement failed it does nothing any more, and can't commit
	over   bool // all under the table's mutex
}

// begin begins a transaction on the server.
func (p *Path) begin(ctx context.Context) (*transaction, error) {
	tx, err := send(ctx, p, KindBegin, nil, func(*Table) (*transaction, error) {
		return &transaction{path: p, slots: make(map[slotKey]*db.LeaderSlot)}, nil
	})
	if err == nil {
		p.opened(tx)
	}
	return tx, err
}

// GuardLease holds off every successor of the term until the transaction ends.
func (tx *transaction) GuardLease(ctx context.Context, arg db.GuardLeaseParams) (int64, error) {
	return inside(ctx, tx, KindGuard, []string{arg.JobName}, func(tb *Table) (int64, error) {
		token, err := tb.guarded(arg)
		if err == nil {
			tb.locks.guards[arg.JobName]++
			tx.guards = append(tx.guards, arg.JobName)
		}
		return token, err
	})
}

// LeaseToken returns the token of the job's current or last term.
func (tx *transaction) LeaseToken(ctx context.Context, jobName string) (int64, error) {
	return inside(ctx, tx, KindToken, []string{jobName}, func(tb *Table) (int64, error) {
		return tb.token(jobName)
	})
}

// ReadSlot returns the state of one slot, as the transaction sees it, and the database's time.
func (tx *transaction) ReadSlot(
	ctx context.Context, arg db.ReadSlotParams,
) (db.ReadSlotRow, error) {
	read := func(tb *Table) (db.ReadSlotRow, error) {
		return tb.readSlot(tx.slot(tb, keyOf(arg.JobName, arg.Slot))), nil
	}
	return inside(ctx, tx, KindReadSlot, []string{arg.JobName}, read)
}

// FinishSlot decides a running slot when the transaction commits, and locks its row until then.
func (tx *transaction) FinishSlot(ctx context.Context, arg db.FinishSlotParams) (int64, error) {
	return inside(ctx, tx, KindFinishSlot, []string{arg.JobName}, func(tb *Table) (int64, error) {
		key := keyOf(arg.JobName, arg.Slot)
		row := tb.finished(tx.slot(tb, key), arg)
		if row == nil {
			return 0, nil
		}
		if tx.slots[key] == nil && tb.locks.keepsSlot(key) {
			return 0, errLocked
		}
		tb.locks.slots[key] = struct{}{}
		tx.slots[key] = row
		return 1, nil
	})
}

// slot is the row as the transaction sees it. The caller holds tb.mu.
func (tx *transaction) slot(tb *Table, key slotKey) *db.LeaderSlot {
	if row := tx.slots[key]; row != nil {
		return row
	}
	return tb.slots[key]
}

// write has f called when the transaction commits.
func (tx *transaction) write(ctx context.Context, f func()) error {
	_, err := inside(ctx, tx, KindWrite, nil, func(*Table) (any, error) {
		tx.writes = append(tx.writes, f)
		return nil, nil
	})
	return err
}

// inside sends a statement in the transaction, which fails with it. The driver's connection does
// not survive most errors, so it does not matter whether the server has seen the statement.
func inside[T any](
	ctx context.Context, tx *transaction, kind Kind, jobs []string, f func(*Table) (T, error),
) (T, error) {
	done := false // no connection delivers a statement twice
	value, err := send(ctx, tx.path, kind, jobs, func(tb *Table) (T, error) {
		var none T
		if tx.over || done {
			return none, ErrReset
		}
		if tx.failed {
			return none, ServerError("25P02") // in_failed_sql_transaction
		}
		value, err := f(tb)
		done = !errors.Is(err, errLocked)
		return value, err
	})
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		tx.path.table.mu.Lock()
		defer tx.path.table.mu.Unlock()
		tx.failed = true
	}
	return value, err
}

// commit ends the transaction and makes what it changed everybody's, unless it has failed.
func (tx *transaction) commit(ctx context.Context) error {
	_, err := send(ctx, tx.path, KindCommit, nil, func(tb *Table) (any, error) {
		switch {
		case tx.over:
			return nil, ErrReset
		case tx.failed:
			tx.end(tb)
			return nil, errRolledBack
		}
		maps.Copy(tb.slots, tx.slots)
		for _, write := range tx.writes {
			write()
		}
		tx.end(tb)
		return nil, nil
	})
	return err
}

var errRolledBack = errors.New("pgfake: rolled back, because a statement of the transaction failed")

// rollback ends the transaction without a trace.
func (tx *transaction) rollback(ctx context.Context) error {
	_, err := send(ctx, tx.path, KindRollback, nil, func(tb *Table) (any, error) {
		tx.end(tb)
		return nil, nil
	})
	return err
}

// abort is what the server does when it finds that the client is gone.
func (tx *transaction) abort() {
	tb := tx.path.table
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tx.end(tb)
}

// end gives the transaction's locks back, once. The caller holds tb.mu.
func (tx *transaction) end(tb *Table) {
	if tx.over {
		return
	}
	tx.over = true
	tx.path.closed(tx)
	for _, job := range tx.guards {
		tb.locks.guards[job]--
	}
	for key := range tx.slots {
		delete(tb.locks.slots, key)
	}
	tb.locks.release()
}

package leader

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/internal/pgcall"
)

// Guard makes sure, for the rest of tx, that nobody else begins to lead the job: a takeover waits
// until tx has ended, while this term's renewals pass. Begin the transaction after the election,
// call Guard first in it, and roll back on an error.
//
// It returns ErrLost if the term is over, also if it ends while Guard waits, and otherwise the
// database's error. Under REPEATABLE READ and SERIALIZABLE that may be SQLSTATE 40001: begin the
// transaction again, and the guard in it tells whether the term is over. A transaction that does
// not see the lease row as this term's ends the term: one whose snapshot is older than the
// election, or of another database.
//
// With lib/pq it returns only when the network does: see Driver settings in docs/operations.md.
func (t *Term) Guard(ctx context.Context, tx *sql.Tx) error {
	if tx == nil {
		return errors.New("leader: guard: tx is nil, want an open transaction")
	}
	if err := t.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(t.ctx, func() { cancel(context.Cause(t.ctx)) })()
	_, err := db.New(tx).GuardLease(ctx, db.GuardLeaseParams{
		JobName: t.job,
		Holder:  t.watchdog.holder,
		Token:   t.token,
	})
	if errors.Is(err, sql.ErrNoRows) {
		t.watchdog.lose(errUnseen, t)
		return errUnseen
	}
	if lost := t.Err(); lost != nil {
		return lost
	}
	if err != nil {
		return fmt.Errorf("leader: guard: %w", pgcall.Explain(err))
	}
	return nil
}

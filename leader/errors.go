package leader

import (
	"context"
	"errors"
	"fmt"

	"github.com/pgleader/pgleader/internal/pgcall"
)

var (
	// ErrLost says that a term is over and its holder does not lead any more. It is the cause of
	// Term.Context's cancellation unless the term was resigned, and what Term.Err and Term.Guard
	// return. Stop the work; Run campaigns again by itself.
	ErrLost = errors.New("leader: term lost")

	// ErrConfig says that New refused its arguments.
	ErrConfig = errors.New("leader: invalid configuration")

	// ErrJobName says that a job name is empty, too long (see MaxJobBytes), not UTF-8, or contains a
	// NUL byte.
	ErrJobName = errors.New("leader: invalid job name")

	// ErrNotLed says that Dismiss found nobody who leads the job.
	ErrNotLed = errors.New("leader: nobody leads the job")

	// ErrNotMigrated says that the database, as this connection sees it, lacks the tables of pgleader
	// or has those of another version. Every method that asks the database may return it.
	ErrNotMigrated = pgcall.ErrNotMigrated

	// ErrForbidden says that the role lacks rights on the tables. Every method that asks the database
	// may return it.
	ErrForbidden = pgcall.ErrForbidden

	// ErrEncoding says that the database's encoding lacks characters of a job name or of
	// Config.Holder. Every method that sends them may return it.
	ErrEncoding = pgcall.ErrEncoding

	// ErrReadOnly says that the server takes no writes. TryAcquire and TryRun return it; Campaign and
	// Run wait until it is over, because it is what a failover looks like from outside.
	ErrReadOnly = pgcall.ErrReadOnly
)

// Permanent reports whether asking again can't help before somebody changes the database, the role,
// the name or the configuration: what deserves an alert. Campaign and Run return such errors, and
// wait all others out.
func Permanent(err error) bool {
	return pgcall.Permanent(err) || errors.Is(err, ErrJobName) || errors.Is(err, ErrConfig)
}

var errNoWork = errors.New("leader: work is nil, want a function")

// Why a term is over.
var (
	errResigned   = fmt.Errorf("leader: term resigned: %w", context.Canceled)
	errTrustEnded = fmt.Errorf("%w: no renewal succeeded in time", ErrLost)
	errTaken      = fmt.Errorf("%w: the lease row is not ours any more "+
		"(taken over, dismissed, expired or deleted)", ErrLost)

	// errUnseen is not errTaken, which spares Resign the release: under REPEATABLE READ the snapshot
	// may be older than the term, and the lease alive.
	errUnseen = fmt.Errorf("%w: the guarded transaction does not see the lease row as ours "+
		"(taken over, dismissed, deleted, another database, or a snapshot older than the term: "+
		"begin the transaction after the election)", ErrLost)
)

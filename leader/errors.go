package leader

import (
	"database/sql"
	"errors"
	"fmt"
)

var (
	// ErrLost says that a term is over and its holder does not lead any more. It is the cause of Term.Context's
	// cancellation, and what Term.Guard returns. Stop the work; Run campaigns again by itself.
	ErrLost = errors.New("leader: term lost")

	// ErrConfig says that New refused its arguments.
	ErrConfig = errors.New("leader: invalid configuration")

	// ErrJobName says that a job name is empty, too long (see MaxJobBytes), not UTF-8, or contains a NUL byte.
	ErrJobName = errors.New("leader: invalid job name")

	// ErrNotMigrated says that the database, as this connection sees it, lacks the tables of pgleader or has those of
	// another version. Every method that asks the database may return it.
	ErrNotMigrated = errors.New("leader: the database has no usable leader_lease or leader_slot table: run migrations.Up, " +
		"or the files in migrations/ with golang-migrate, and check the connection's search_path")

	// ErrReadOnly says that the server takes no writes. TryAcquire returns it; Campaign and Run wait until it is over,
	// because it is what a failover looks like from outside.
	ErrReadOnly = errors.New("leader: the server is read-only: connect to the primary " +
		"(target_session_attrs=read-write), and check default_transaction_read_only")

	// ErrSlotDecided says that Slot.Complete came too late: the slot is finished already.
	ErrSlotDecided = errors.New("leader: the slot is decided")

	// ErrNotLed says that Dismiss found nobody who leads the job.
	ErrNotLed = errors.New("leader: nobody leads the job")

	// ErrNoSlot says that Rerun found no record of the slot, or found it running.
	ErrNoSlot = errors.New("leader: the slot is not on record, or it is running")

	// ErrSlotTime says that RunSlot or Rerun was given the zero time, or one outside the years 1970 to 9999.
	ErrSlotTime = errors.New("leader: invalid slot time")

	// ErrSchedule says that RunSchedule was given a schedule that never comes, or a policy that cannot be kept.
	ErrSchedule = errors.New("leader: invalid schedule")

	errForbidden = errors.New("leader: the role may not use pgleader's tables: GRANT SELECT, INSERT, UPDATE ON leader_lease to it, " +
		"EXECUTE ON FUNCTION leader_token_floor where that was revoked, and for slots SELECT, INSERT, UPDATE, DELETE ON leader_slot")

	errNoWork = errors.New("leader: work is nil, want a function")

	// errUnanswered marks a call that the driver had not returned when its time was over.
	errUnanswered = errors.New("the database did not answer in time")
)

// sqlState returns the SQLSTATE of a server's error, or "" if the server did not send one. lib/pq and pgx errors both
// have the method; matching it keeps this package free of drivers.
func sqlState(err error) string {
	var e interface{ SQLState() string }
	if errors.As(err, &e) {
		return e.SQLState()
	}
	return ""
}

// explain adds to a database error what the caller can do about it, and keeps the driver's error reachable.
func explain(err error) error {
	switch sqlState(err) {
	case "42P01", "42703", "42883", "3F000": // undefined table, column, function, schema
		return fmt.Errorf("%w (%w)", ErrNotMigrated, err)
	case "22021", "22P05": // character_not_in_repertoire, untranslatable_character
		return fmt.Errorf("%w, or Config.Holder: the database's encoding lacks characters of it (%w)", ErrJobName, err)
	case "25006": // read_only_sql_transaction
		return fmt.Errorf("%w (%w)", ErrReadOnly, err)
	case "42501": // insufficient_privilege
		return fmt.Errorf("%w (%w)", errForbidden, err)
	}
	return err
}

// hopeless reports whether asking again can't help before somebody changes the database or the role.
func hopeless(err error) bool {
	return errors.Is(err, ErrNotMigrated) || errors.Is(err, errForbidden) || errors.Is(err, ErrJobName)
}

// undecided reports whether the statement may have been carried out although it failed: the server did not say that it failed, or ended
// the connection on its own account, as it does to idle ones when it shuts down.
func undecided(err error) bool {
	switch sqlState(err) {
	case "", "57P01", "57P02", "57P03": // admin_shutdown, crash_shutdown, cannot_connect_now
		return true
	}
	return false
}

// rivalry reports whether the server gave the statement up in favour of a concurrent one, as it does under REPEATABLE READ and
// SERIALIZABLE, or on a deadlock: asking again at once is right.
func rivalry(err error) bool {
	state := sqlState(err)
	return state == "40001" || state == "40P01"
}

// passing reports whether the same question may succeed a little later.
func passing(err error) bool {
	state := sqlState(err)
	if len(state) != 5 {
		return !errors.Is(err, sql.ErrNoRows)
	}
	switch state[:2] {
	case "08", "40", "53", "55", "57": // connection, rollback, resources, locks, operator intervention and timeouts
		return true
	}
	return state == "25006"
}

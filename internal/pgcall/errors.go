package pgcall

import (
	"database/sql"
	"errors"
	"fmt"
)

var (
	// ErrNotMigrated says that the database, as this connection sees it, lacks the tables of pgleader
	// or has those of another version.
	ErrNotMigrated = errors.New("pgleader: the database has no usable leader_lease or leader_slot " +
		"table: run migrations.Up, or the files in migrations/ with golang-migrate, and check the " +
		"connection's search_path")

	// ErrReadOnly says that the server takes no writes, as a standby, or as a primary that became one.
	ErrReadOnly = errors.New("pgleader: the server is read-only: connect to the primary " +
		"(target_session_attrs=read-write), and check default_transaction_read_only")

	// ErrForbidden says that the role lacks rights.
	ErrForbidden = errors.New("pgleader: the role may not use pgleader's tables: " +
		"GRANT SELECT, INSERT, UPDATE ON leader_lease to it, EXECUTE ON FUNCTION leader_token_floor " +
		"where that was revoked, and for slots SELECT, INSERT, UPDATE, DELETE ON leader_slot")

	// ErrEncoding says that the database's encoding lacks characters of a name or a message.
	ErrEncoding = errors.New("pgleader: the database's encoding lacks characters of a job name, " +
		"a holder or an error: use those that it has, or a database in UTF8")

	// ErrUnanswered says that the driver had not returned when the time of a call was over. The
	// statement may be carried out all the same.
	ErrUnanswered = errors.New("pgleader: the database did not answer in time")
)

// Explain adds to a database's error what the caller can do about it, by the sentinels above. The
// driver's error stays reachable by errors.As.
func Explain(err error) error {
	switch SQLState(err) {
	case "42P01", "42703", "42883", "3F000": // undefined table, column, function, schema
		return fmt.Errorf("%w (%w)", ErrNotMigrated, err)
	case "22021", "22P05": // character_not_in_repertoire, untranslatable_character
		return fmt.Errorf("%w (%w)", ErrEncoding, err)
	case "25006": // read_only_sql_transaction
		return fmt.Errorf("%w (%w)", ErrReadOnly, err)
	case "42501": // insufficient_privilege
		return fmt.Errorf("%w (%w)", ErrForbidden, err)
	}
	return err
}

// SQLState returns the SQLSTATE of a server's error, or "" if the server did not send one. The
// errors of lib/pq and pgx both have the method; matching it keeps this package free of drivers.
func SQLState(err error) string {
	var e interface{ SQLState() string }
	if errors.As(err, &e) {
		return e.SQLState()
	}
	return ""
}

// Permanent reports whether asking again can't help before somebody changes the database or the
// role.
func Permanent(err error) bool {
	return errors.Is(err, ErrNotMigrated) || errors.Is(err, ErrForbidden) ||
		errors.Is(err, ErrEncoding)
}

// Undecided reports whether the statement may have been carried out although it failed: the server
// did not say that it failed, or ended the connection on its own account, as it does to idle ones
// when it shuts down.
func Undecided(err error) bool {
	switch SQLState(err) {
	case "", "57P01", "57P02", "57P03": // admin_shutdown, crash_shutdown, cannot_connect_now
		return true
	}
	return false
}

// Rivalry reports whether the server gave the statement up in favour of a concurrent one, as it
// does under REPEATABLE READ and SERIALIZABLE, or on a deadlock: asking again at once is right.
func Rivalry(err error) bool {
	state := SQLState(err)
	return state == "40001" || state == "40P01"
}

// Passing reports whether the same question may succeed a little later.
func Passing(err error) bool {
	state := SQLState(err)
	if len(state) != 5 {
		return !errors.Is(err, sql.ErrNoRows)
	}
	switch state[:2] {
	// Connection, rollback, resources, locks, intervention and timeouts.
	case "08", "40", "53", "55", "57":
		return true
	}
	return state == "25006"
}

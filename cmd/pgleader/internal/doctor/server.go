package doctor

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/words"
)

// connection tells where this is, and whether its search_path leads anywhere.
func (e *examination) connection(ctx context.Context) ([]Finding, error) {
	address := "?"
	err := e.conn.Raw(func(driver any) error {
		if conn, ok := driver.(*stdlib.Conn); ok {
			address = conn.Conn().PgConn().Conn().RemoteAddr().String()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var version, database, user, path, schema, encoding string
	err = e.ask(ctx, `
		SELECT current_setting('server_version'), current_database(), current_user,
		       current_setting('search_path'), coalesce(current_schema(), ''),
		       current_setting('server_encoding')`,
		nil, &version, &database, &user, &path, &schema, &encoding)
	if err != nil {
		return nil, err
	}
	where := fmt.Sprintf("PostgreSQL %s at %s, database %s, user %s, search_path %s",
		version, address, words.Name(database), words.Name(user), path)
	switch {
	case schema == "":
		return only(problem(
			"set search_path to the schema of the tables, and GRANT USAGE ON SCHEMA to the role",
			"%s: none of its schemas exists and may be used", where))
	case encoding != "UTF8":
		return only(warning("keep job names to characters that it has",
			"%s: the database's encoding is %s", where, encoding))
	}
	return only(fine("%s", where))
}

// writes wants a server that takes them.
func (e *examination) writes(ctx context.Context) ([]Finding, error) {
	var standby, readOnly bool
	err := e.ask(ctx, `
		SELECT pg_is_in_recovery(), current_setting('transaction_read_only')::boolean`,
		nil, &standby, &readOnly)
	if err != nil {
		return nil, err
	}
	const primary = "connect to the primary; with several hosts in the URL add " +
		"target_session_attrs=read-write"
	switch {
	case standby:
		return only(problem(primary, "the server is a standby: nobody can be elected here"))
	case readOnly:
		return only(problem(
			primary+", and look for default_transaction_read_only in the settings of server, "+
				"database and role",
			"transactions are read-only here: nobody can be elected"))
	}
	return only(fine("the server takes writes"))
}

// pooler asks which server process answers. Two connections that are open at the same time have a
// process each, and keep it, unless something in between lends a few of them by the transaction.
func (e *examination) pooler(ctx context.Context) ([]Finding, error) {
	other, err := e.Pool.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("a second connection: %w", err)
	}
	defer other.Close()
	var first int64
	for range 5 {
		const process = "SELECT pg_backend_pid()"
		var pid, otherPID int64
		if err := e.ask(ctx, process, nil, &pid); err != nil {
			return nil, err
		}
		if err := other.QueryRowContext(ctx, process).Scan(&otherPID); err != nil {
			return nil, err
		}
		if pid == otherPID || first != 0 && pid != first {
			return only(warning("elections work through it; with pgx the workers need "+
				"default_query_exec_mode=exec in the URL, with lib/pq binary_parameters=yes",
				"one connection is served by changing server processes: "+
					"this looks like a pooler in transaction mode, such as PgBouncer"))
		}
		first = pid
	}
	return only(fine("each connection keeps its own server process"))
}

// clock compares this host's clock with the server's, by the quickest of a few questions: half its
// round trip is the error.
func (e *examination) clock(ctx context.Context) ([]Finding, error) {
	best, offset := time.Duration(math.MaxInt64), time.Duration(0)
	for range 5 {
		var there time.Time
		start := time.Now()
		if err := e.ask(ctx, "SELECT clock_timestamp()", nil, &there); err != nil {
			return nil, err
		}
		if trip := time.Since(start); trip < best {
			best, offset = trip, start.Add(trip/2).Sub(there)
		}
	}
	return only(judgeClock(offset, best))
}

// maxClockOffset is what no cron schedule minds.
const maxClockOffset = 2 * time.Second

// judgeClock takes by how much this host's clock is ahead, and the round trip.
func judgeClock(offset, trip time.Duration) Finding {
	direction := "ahead of"
	if offset < 0 {
		direction = "behind"
	}
	what := fmt.Sprintf("this host's clock is %v %s the server's (round trip %v)",
		offset.Abs().Round(time.Millisecond), direction, trip.Round(10*time.Microsecond))
	if offset.Abs() > maxClockOffset+trip/2 {
		return warning("elections do not mind; crontab starts its commands by the host's clock: "+
			"run NTP on both", "%s", what)
	}
	return fine("%s", what)
}

package main

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
)

func (d *doctor) connection(ctx context.Context) error {
	address := "?"
	err := d.conn.Raw(func(driver any) error {
		if conn, ok := driver.(*stdlib.Conn); ok {
			address = conn.Conn().PgConn().Conn().RemoteAddr().String()
		}
		return nil
	})
	if err != nil {
		return err
	}
	var version, database, user, path, schema, encoding string
	err = d.ask(ctx, `
		SELECT current_setting('server_version'), current_database(), current_user, current_setting('search_path'),
		       coalesce(current_schema(), ''), current_setting('server_encoding')`,
		nil, &version, &database, &user, &path, &schema, &encoding)
	if err != nil {
		return err
	}
	where := fmt.Sprintf("PostgreSQL %s at %s, database %s, user %s, search_path %s", version, address, shown(database),
		shown(user), path)
	switch {
	case schema == "":
		d.add("connection", problem, "set search_path to the schema of the tables, and GRANT USAGE ON SCHEMA to the role",
			"%s: none of its schemas exists and may be used", where)
	case encoding != "UTF8":
		d.add("connection", warning, "keep job names to characters that it has", "%s: the database's encoding is %s", where,
			encoding)
	default:
		d.add("connection", fine, "", "%s", where)
	}
	return nil
}

func (d *doctor) writes(ctx context.Context) error {
	var standby, readOnly bool
	if err := d.ask(ctx, "SELECT pg_is_in_recovery(), current_setting('transaction_read_only')::boolean", nil, &standby,
		&readOnly); err != nil {
		return err
	}
	const primary = "connect to the primary; with several hosts in the URL add target_session_attrs=read-write"
	switch {
	case standby:
		d.add("writes", problem, primary, "the server is a standby: nobody can be elected here")
	case readOnly:
		d.add("writes", problem, primary+", and look for default_transaction_read_only in the settings of server, database "+
			"and role",
			"transactions are read-only here: nobody can be elected")
	default:
		d.add("writes", fine, "", "the server takes writes")
	}
	return nil
}

func (d *doctor) durability(ctx context.Context) error {
	var fsync, fullPages bool
	var commit string
	err := d.ask(ctx, `
		SELECT current_setting('fsync')::boolean, current_setting('full_page_writes')::boolean,
		       current_setting('synchronous_commit')`,
		nil, &fsync, &fullPages, &commit)
	if err != nil {
		return err
	}
	var off []string
	if !fsync {
		off = append(off, "fsync")
	}
	if !fullPages {
		off = append(off, "full_page_writes")
	}
	if commit == "off" {
		off = append(off, "synchronous_commit")
	}
	if len(off) > 0 {
		fix := "turn it on in postgresql.conf"
		if commit == "off" {
			fix += ", or synchronous_commit for the role alone, by ALTER ROLE"
		}
		d.add("durability", warning, fix,
			"%s is off: a crash of the server can forget an election, and give its token out again while the leader goes on",
			strings.Join(off, ", "))
		return nil
	}
	d.add("durability", fine, "", "commits survive a crash of the server")
	return nil
}

func (d *doctor) isolation(ctx context.Context) error {
	var isolation string
	if err := d.ask(ctx, "SELECT current_setting('default_transaction_isolation')", nil, &isolation); err != nil {
		return err
	}
	if isolation != "read committed" {
		d.add("isolation", warning, "elections ask again by themselves; guarded transactions must be ready for SQLSTATE "+
			"40001, or begin as READ COMMITTED",
			"transactions are %s by default", isolation)
		return nil
	}
	d.add("isolation", fine, "", "transactions are read committed by default")
	return nil
}

// hurtful are the settings that end what an election needs, below a limit.
var hurtful = []struct {
	name  string
	below time.Duration
	what  string
}{
	{"statement_timeout", 5 * time.Second, "ends renewals on a slow server"},
	{"lock_timeout", time.Second, "ends elections and renewals that meet a lock"},
	{"transaction_timeout", 5 * time.Second, "ends renewals on a slow server, and guarded transactions"},
	{"idle_in_transaction_session_timeout", 5 * time.Second, "ends guarded transactions that pause between statements"},
	{"idle_session_timeout", time.Minute, "closes connections between two renewals"},
}

func (d *doctor) timeouts(ctx context.Context) error {
	count := len(d.findings)
	for _, h := range hurtful {
		var ms int64 // 0 means no limit, or a server that does not know the setting
		err := d.ask(ctx, "SELECT coalesce(max(setting::bigint), 0) FROM pg_catalog.pg_settings WHERE name = $1",
			[]any{h.name}, &ms)
		if err != nil {
			return err
		}
		limit := time.Duration(ms) * time.Millisecond
		if limit > 0 && limit < h.below {
			d.add("timeouts", warning, fmt.Sprintf("raise it to %v or more for the workers, by ALTER ROLE … SET", h.below),
				"%s is %v: it %s", h.name, limit, h.what)
		}
	}
	if len(d.findings) == count {
		d.add("timeouts", fine, "", "no setting ends what an election needs")
	}
	return nil
}

// pooler asks which server process answers. Two connections that are open at the same time have a process each, and
// keep it, unless something in between lends a few of them by the transaction.
func (d *doctor) pooler(ctx context.Context) error {
	other, err := d.pool.Conn(ctx)
	if err != nil {
		return fmt.Errorf("a second connection: %w", err)
	}
	defer other.Close()
	var first int64
	for range 5 {
		var pid, otherPID int64
		if err := d.ask(ctx, "SELECT pg_backend_pid()", nil, &pid); err != nil {
			return err
		}
		if err := other.QueryRowContext(ctx, "SELECT pg_backend_pid()").Scan(&otherPID); err != nil {
			return err
		}
		if pid == otherPID || first != 0 && pid != first {
			d.add("pooler", warning, "elections work through it; with pgx the workers need default_query_exec_mode=exec in the "+
				"URL, with lib/pq binary_parameters=yes",
				"one connection is served by changing server processes: this looks like a pooler in transaction mode, such as "+
					"PgBouncer")
			return nil
		}
		first = pid
	}
	d.add("pooler", fine, "", "each connection keeps its own server process")
	return nil
}

// maxClockOffset is what no cron schedule minds.
const maxClockOffset = 2 * time.Second

// clock compares this host's clock with the server's, by the quickest of a few questions: half its round trip is the
// error.
func (d *doctor) clock(ctx context.Context) error {
	best, offset := time.Duration(math.MaxInt64), time.Duration(0)
	for range 5 {
		var there time.Time
		start := time.Now()
		if err := d.ask(ctx, "SELECT clock_timestamp()", nil, &there); err != nil {
			return err
		}
		if trip := time.Since(start); trip < best {
			best, offset = trip, start.Add(trip/2).Sub(there)
		}
	}
	d.judgeClock(offset, best)
	return nil
}

// judgeClock takes by how much this host's clock is ahead, and the round trip.
func (d *doctor) judgeClock(offset, trip time.Duration) {
	direction := "ahead of"
	if offset < 0 {
		direction = "behind"
	}
	what := fmt.Sprintf("this host's clock is %v %s the server's (round trip %v)",
		offset.Abs().Round(time.Millisecond), direction, trip.Round(10*time.Microsecond))
	if offset.Abs() > maxClockOffset+trip/2 {
		d.add("clock", warning, "elections do not mind; crontab starts its commands by the host's clock: run NTP on both",
			"%s", what)
		return
	}
	d.add("clock", fine, "", "%s", what)
}

func (d *doctor) transactions(ctx context.Context) error {
	var visible bool
	if err := d.ask(ctx, "SELECT pg_has_role('pg_read_all_stats', 'USAGE')", nil, &visible); err != nil {
		return err
	}
	var count int64
	var pid string
	var oldest float64
	err := d.ask(ctx, `
		WITH old AS (
		    SELECT 'pid ' || pid AS who, extract(epoch FROM clock_timestamp() - xact_start)::float8 AS age
		    FROM pg_catalog.pg_stat_activity
		    WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'
		      AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
		    UNION ALL
		    SELECT 'prepared transaction ' || gid, extract(epoch FROM clock_timestamp() - prepared)::float8
		    FROM pg_catalog.pg_prepared_xacts
		)
		SELECT count(*), coalesce((array_agg(who ORDER BY age DESC))[1], ''), coalesce(max(age), 0)
		FROM old
		WHERE age >= $1::float8`, []any{d.long.Seconds()}, &count, &pid, &oldest)
	if err != nil {
		return err
	}
	age := time.Duration(oldest * float64(time.Second))
	switch {
	case count > 0:
		d.add("transactions", warning, "end it, by pg_terminate_backend(pid) or ROLLBACK PREPARED, if nobody needs it",
			"%d transactions are open for %v or longer, the oldest (%s) for %s: until they end every renewal makes its table grow",
			count, d.long, shown(pid), span(age))
	case !visible:
		d.add("transactions", fine, "GRANT pg_read_all_stats to the role to see those of others",
			"none of this role's own is open for %v or longer", d.long)
	default:
		d.add("transactions", fine, "", "none is open for %v or longer", d.long)
	}
	return nil
}

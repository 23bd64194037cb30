package main

import (
	"context"
	"database/sql"
)

// counters are the server's own, of all databases.
type counters struct {
	wal        float64 // bytes of WAL inserted
	statements float64 // finished ones, without those that read the counters
	cpu        float64 // seconds used by the server's processes that are alive
}

// readCounters asks in one statement, whose text names pg_stat_statements, so that it does not
// count itself.
func (b *bench) readCounters(ctx context.Context) (counters, error) {
	var c counters
	if !b.hasStatements {
		err := b.admin.QueryRowContext(ctx,
			`SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn`).Scan(&c.wal)
		return c, err
	}
	err := b.admin.QueryRowContext(ctx, `
		SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn,
		       (SELECT coalesce(sum(calls), 0) FROM pg_stat_statements
		        WHERE query NOT LIKE '%pg_stat_statements%')`).
		Scan(&c.wal, &c.statements)
	return c, err
}

// readLoad is readCounters with the CPU time, which Linux gives in hundredths of a second.
func (b *bench) readLoad(ctx context.Context) (counters, error) {
	c, err := b.readCounters(ctx)
	if err != nil {
		return c, err
	}
	c.cpu, err = serverCPU(ctx, b.admin, "true")
	return c, err
}

// serverCPU lets the server read its processes' times, for it may run in a container. It is 0 where
// there is no /proc.
func serverCPU(ctx context.Context, admin *sql.DB, which string) (float64, error) {
	var seconds float64
	err := admin.QueryRowContext(ctx, `
		SELECT coalesce(sum(f[12]::float8 + f[13]::float8), 0) / 100
		FROM pg_stat_activity,
		     pg_read_file('/proc/' || pid || '/stat', 0, 10000, true) AS stat,
		     string_to_array(regexp_replace(stat, '^.*\) ', ''), ' ') AS f
		WHERE pid <> pg_backend_pid() AND stat IS NOT NULL AND `+which+` /* pg_stat_statements */`).
		Scan(&seconds)
	return seconds, err
}

// statementTime is what the server has spent on statements whose text contains part: planning and
// execution, without parsing, commit and flush.
func (b *bench) statementTime(
	ctx context.Context, part string,
) (calls, seconds float64, err error) {
	if !b.hasStatements {
		return 0, 0, nil
	}
	err = b.admin.QueryRowContext(ctx, `
		SELECT coalesce(sum(calls), 0), coalesce(sum(total_plan_time + total_exec_time), 0) / 1000
		FROM pg_stat_statements
		WHERE strpos(query, $1) > 0 AND query NOT LIKE '%pg_stat_statements%'`, part).
		Scan(&calls, &seconds)
	return calls, seconds, err
}

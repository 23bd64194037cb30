package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/words"
)

// durability wants commits that survive a crash.
func (e *examination) durability(ctx context.Context) ([]Finding, error) {
	var fsync, fullPages bool
	var commit string
	err := e.ask(ctx, `
		SELECT current_setting('fsync')::boolean, current_setting('full_page_writes')::boolean,
		       current_setting('synchronous_commit')`,
		nil, &fsync, &fullPages, &commit)
	if err != nil {
		return nil, err
	}
	var off []string
	if !fsync {
		off = append(off, "fsync")
	}
	if !fullPages {
		off = append(off, "full_page_writes")
	}
	fix := "turn it on in postgresql.conf"
	if commit == "off" {
		off = append(off, "synchronous_commit")
		fix += ", or synchronous_commit for the role alone, by ALTER ROLE"
	}
	if len(off) > 0 {
		return only(warning(fix, "%s is off: a crash of the server can forget an election, and give "+
			"its token out again while the leader goes on", strings.Join(off, ", ")))
	}
	return only(fine("commits survive a crash of the server"))
}

// isolation wants the level at which guarded transactions do not fail beside renewals.
func (e *examination) isolation(ctx context.Context) ([]Finding, error) {
	var level string
	err := e.ask(ctx, "SELECT current_setting('default_transaction_isolation')", nil, &level)
	if err != nil {
		return nil, err
	}
	if level != "read committed" {
		return only(warning("elections ask again by themselves; guarded transactions must be "+
			"ready for SQLSTATE 40001, or begin as READ COMMITTED",
			"transactions are %s by default", level))
	}
	return only(fine("transactions are read committed by default"))
}

// hurtful are the settings that end what an election needs, below a limit.
var hurtful = []struct {
	name  string
	below time.Duration
	what  string
}{
	{"statement_timeout", 5 * time.Second, "ends renewals on a slow server"},
	{"lock_timeout", time.Second, "ends elections and renewals that meet a lock"},
	{
		"transaction_timeout", 5 * time.Second,
		"ends renewals on a slow server, and guarded transactions",
	},
	{
		"idle_in_transaction_session_timeout", 5 * time.Second,
		"ends guarded transactions that pause between statements",
	},
	{"idle_session_timeout", time.Minute, "closes connections between two renewals"},
}

// timeouts wants no setting that ends what an election needs.
func (e *examination) timeouts(ctx context.Context) ([]Finding, error) {
	var findings []Finding
	for _, h := range hurtful {
		var ms int64 // 0 means no limit, or a server that does not know the setting
		err := e.ask(ctx, `
			SELECT coalesce(max(setting::bigint), 0)
			FROM pg_catalog.pg_settings
			WHERE name = $1`, []any{h.name}, &ms)
		if err != nil {
			return findings, err
		}
		limit := time.Duration(ms) * time.Millisecond
		if limit > 0 && limit < h.below {
			findings = append(findings, warning(
				fmt.Sprintf("raise it to %v or more for the workers, by ALTER ROLE … SET", h.below),
				"%s is %v: it %s", h.name, limit, h.what))
		}
	}
	if len(findings) == 0 {
		return only(fine("no setting ends what an election needs"))
	}
	return findings, nil
}

// transactions wants none that is so old that dead versions of the leases pile up behind it.
func (e *examination) transactions(ctx context.Context) ([]Finding, error) {
	var visible bool
	err := e.ask(ctx, "SELECT pg_has_role('pg_read_all_stats', 'USAGE')", nil, &visible)
	if err != nil {
		return nil, err
	}
	var count int64
	var who string
	var seconds float64
	err = e.ask(ctx, `
		WITH old AS (
		    SELECT 'pid ' || pid AS who,
		           extract(epoch FROM clock_timestamp() - xact_start)::float8 AS age
		    FROM pg_catalog.pg_stat_activity
		    WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'
		      AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
		    UNION ALL
		    SELECT 'prepared transaction ' || gid,
		           extract(epoch FROM clock_timestamp() - prepared)::float8
		    FROM pg_catalog.pg_prepared_xacts
		)
		SELECT count(*), coalesce((array_agg(who ORDER BY age DESC))[1], ''), coalesce(max(age), 0)
		FROM old
		WHERE age >= $1::float8`, []any{e.long.Seconds()}, &count, &who, &seconds)
	if err != nil {
		return nil, err
	}
	oldest := time.Duration(seconds * float64(time.Second))
	switch {
	case count > 0:
		return only(warning(
			"end it, by pg_terminate_backend(pid) or ROLLBACK PREPARED, if nobody needs it",
			"%d transactions are open for %v or longer, the oldest (%s) for %s: "+
				"until they end every renewal makes its table grow",
			count, e.long, words.Name(who), words.Span(oldest)))
	case !visible:
		own := fine("none of this role's own is open for %v or longer", e.long)
		own.Advice = "GRANT pg_read_all_stats to the role to see those of others"
		return only(own)
	}
	return only(fine("none is open for %v or longer", e.long))
}

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/migrations"
)

func (d *doctor) migrations(ctx context.Context) error {
	state, err := migrations.Version(ctx, d.pool)
	if forbidden(err) {
		d.add("migrations", warning, "GRANT SELECT ON leader_schema_migrations to the role; migrations.Up needs it too",
			"the role may not read the version of the tables")
		return nil
	}
	if err != nil {
		return err
	}
	d.version = state.Version
	const up = "run 'pgleader migrate up' with the role that owns the tables"
	switch text := versionText(state); {
	case state.Dirty:
		d.add("migrations", problem, "'pgleader migrate up' prints what to look at and how to repair it", "%s", text)
	case state.Version == 0:
		d.add("migrations", problem, up+"; if that was done, check the database's name and the search_path", "%s", text)
	case state.Version < state.Newest:
		d.add("migrations", problem, up, "%s", text)
	case state.Version > state.Newest:
		d.add("migrations", warning, "older workers go on; upgrade this program to see everything", "%s", text)
	default:
		d.add("migrations", fine, "", "%s", text)
	}
	return nil
}

// needs are the rights of a worker.
var needs = []struct {
	table  string
	since  int // the version that made it
	rights []string
}{
	{"leader_lease", 1, []string{"SELECT", "INSERT", "UPDATE"}},
	{"leader_slot", 2, []string{"SELECT", "INSERT", "UPDATE", "DELETE"}},
}

// tables looks at the tables themselves and at the rights on them. That there is none is the migrations' finding.
func (d *doctor) tables(ctx context.Context) error {
	var role string
	if err := d.ask(ctx, "SELECT current_user", nil, &role); err != nil {
		return err
	}
	var found, missing []string
	for _, need := range needs {
		var name, persistence string
		var absent bool
		err := d.ask(ctx, `
			SELECT coalesce(max(c.oid::regclass::text), ''), coalesce(max(c.relpersistence::text), ''), count(*) = 0
			FROM pg_catalog.pg_class AS c
			WHERE c.oid = to_regclass($1)`, []any{need.table}, &name, &persistence, &absent)
		if err != nil {
			return err
		}
		if absent {
			if d.version >= need.since {
				d.add("tables", problem, "check the search_path; if somebody dropped it, restore it, or apply the file of "+
					"'pgleader migrate print' that makes it",
					"%s is not there, although the version table says so", need.table)
			}
			continue
		}
		found = append(found, need.table)
		if persistence != "p" {
			d.add("tables", problem, fmt.Sprintf("ALTER TABLE %s SET LOGGED; a temporary table must be dropped", name),
				"%s is not an ordinary table: after a crash it is empty, and tokens start again at 1", name)
		}
		var lacks []string
		for _, right := range need.rights {
			var has bool
			if err := d.ask(ctx, "SELECT has_table_privilege(to_regclass($1), $2)", []any{need.table, right}, &has); err != nil {
				return err
			}
			if !has {
				lacks = append(lacks, right)
			}
		}
		if len(lacks) > 0 {
			missing = append(missing, fmt.Sprintf("GRANT %s ON %s TO %s", strings.Join(lacks, ", "), name,
				pgx.Identifier{role}.Sanitize()))
		}
	}
	if len(found) == 0 {
		return nil
	}
	var executes bool
	err := d.ask(ctx, "SELECT coalesce(has_function_privilege(to_regprocedure('leader_token_floor()'), 'EXECUTE'), "+
		"true)", nil, &executes)
	if err != nil {
		return err
	}
	if !executes {
		missing = append(missing, "GRANT EXECUTE ON FUNCTION leader_token_floor() TO "+pgx.Identifier{role}.Sanitize())
	}
	if len(missing) > 0 {
		d.add("rights", problem, strings.Join(missing, "; "), "role %s lacks rights that a worker needs", role)
	} else {
		d.add("rights", fine, "", "role %s may use %s", role, strings.Join(found, " and "))
	}
	return nil
}

// forbidden reports whether the role lacks a right.
func forbidden(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == "42501" // insufficient_privilege
}

// leaseSlack is by how much a lease may outlast the longest TTL before its expiry must be somebody's mistake.
const leaseSlack = time.Minute

func (d *doctor) leases(ctx context.Context) error {
	leases, err := d.Leases(ctx)
	if err != nil {
		if errors.Is(err, leader.ErrNotMigrated) || forbidden(err) {
			return nil // a finding of the checks before this one
		}
		return err
	}
	held := 0
	count := len(d.findings)
	for _, l := range leases {
		if l.Live() {
			held++
		}
		late, isLate := unrenewed(l)
		ahead, isAhead := renewedAhead(l)
		switch {
		case isAhead:
			d.add("leases", warning, "check the server's NTP. A candidate that waits frees the lease after its TTL; if none does, make sure that the holder is gone, "+
				"and: UPDATE leader_lease SET expires_at = clock_timestamp() WHERE job_name = "+literal(l.Job)+
				" AND renewed_at > clock_timestamp()",
				"the lease of %s was last renewed %s in the future: the server's clock was set back, or a server was promoted whose clock is behind, "+
					"and nobody has renewed it since",
				shown(l.Job), span(ahead))
		case l.Left > leader.MaxTTL+leaseSlack:
			d.add("leases", problem, "make sure that its holder is gone, then let it expire: UPDATE leader_lease SET "+
				"expires_at = clock_timestamp() "+
				"WHERE job_name = "+literal(l.Job),
				"nobody else can lead %s for %s, longer than any TTL: somebody edited the row", shown(l.Job), span(l.Left))
		case stateOf(l) == dismissed:
			d.add("leases", fine, "", "%s took %s away; it is free in %s", shown(l.Holder), shown(l.Job), span(l.Left))
		case isLate:
			d.add("leases", warning, "look at the holder and its network; another candidate can lead in "+span(l.Left),
				"%s leads %s and has not renewed its lease for %s", shown(l.Holder), shown(l.Job), span(late))
		}
	}
	if len(d.findings) == count {
		d.add("leases", fine, "", "%d of %d jobs are led, and their leases renewed", held, len(leases))
	}
	return nil
}

// literal quotes a name for SQL that is shown to be copied.
func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

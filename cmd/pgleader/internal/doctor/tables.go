package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/schema"
	"github.com/pgleader/pgleader/migrations"
)

// migrations wants the tables to be of this program's version.
func (e *examination) migrations(ctx context.Context) ([]Finding, error) {
	state, err := migrations.Version(ctx, e.Pool)
	if forbidden(err) {
		return only(warning("GRANT SELECT ON leader_schema_migrations to the role; "+
			"migrations.Up needs it too", "the role may not read the version of the tables"))
	}
	if err != nil {
		return nil, err
	}
	e.version = state.Version
	const up = "run 'pgleader migrate up' with the role that owns the tables"
	switch text := schema.Describe(state); {
	case state.Dirty:
		return only(problem("'pgleader migrate up' prints what to look at and how to repair it",
			"%s", text))
	case state.Version == 0:
		return only(problem(up+"; if that was done, check the database's name and the search_path",
			"%s", text))
	case state.Version < state.Newest:
		return only(problem(up, "%s", text))
	case state.Version > state.Newest:
		return only(warning("older workers go on; upgrade this program to see everything",
			"%s", text))
	default:
		return only(fine("%s", text))
	}
}

// needed are the tables, and the rights that a worker has to have.
var needed = []struct {
	table  string
	since  int // the version that made it
	rights []string
}{
	{"leader_lease", 1, []string{"SELECT", "INSERT", "UPDATE"}},
	{"leader_slot", 2, []string{"SELECT", "INSERT", "UPDATE", "DELETE"}},
}

// tables wants every table that the version speaks of, and that a crash leaves it alone. That there
// is no version is the migrations' finding.
func (e *examination) tables(ctx context.Context) ([]Finding, error) {
	var findings []Finding
	for _, need := range needed {
		name, persistence, err := e.table(ctx, need.table)
		switch {
		case err != nil:
			return findings, err
		case name == "" && e.version >= need.since:
			findings = append(findings, problem("check the search_path; if somebody dropped it, "+
				"restore it, or apply the file of 'pgleader migrate print' that makes it",
				"%s is not there, although the version table says so", need.table))
		case name != "" && persistence != "p":
			findings = append(findings, problem(
				fmt.Sprintf("ALTER TABLE %s SET LOGGED; a temporary table must be dropped", name),
				"%s is not an ordinary table: after a crash it is empty, and tokens start again at 1",
				name))
		}
	}
	return findings, nil
}

// table is a table's name as it is written here, or "" if there is none, and its relpersistence.
func (e *examination) table(ctx context.Context, table string) (
	name, persistence string, err error,
) {
	err = e.ask(ctx, `
		SELECT coalesce(max(c.oid::regclass::text), ''), coalesce(max(c.relpersistence::text), '')
		FROM pg_catalog.pg_class AS c
		WHERE c.oid = to_regclass($1)`, []any{table}, &name, &persistence)
	return name, persistence, err
}

// rights wants the role to have those that a worker needs, on the tables that are there.
func (e *examination) rights(ctx context.Context) ([]Finding, error) {
	var role string
	if err := e.ask(ctx, "SELECT current_user", nil, &role); err != nil {
		return nil, err
	}
	to := " TO " + pgx.Identifier{role}.Sanitize()
	var found, grants []string
	for _, need := range needed {
		name, _, err := e.table(ctx, need.table)
		if err != nil {
			return nil, err
		}
		if name == "" {
			continue
		}
		found = append(found, need.table)
		lacks, err := e.lacking(ctx, need.table, need.rights)
		if err != nil {
			return nil, err
		}
		if len(lacks) > 0 {
			grants = append(grants, "GRANT "+strings.Join(lacks, ", ")+" ON "+name+to)
		}
	}
	if len(found) == 0 {
		return nil, nil
	}
	var executes bool
	err := e.ask(ctx, `
		SELECT coalesce(
		    has_function_privilege(to_regprocedure('leader_token_floor()'), 'EXECUTE'), true)`,
		nil, &executes)
	if err != nil {
		return nil, err
	}
	if !executes {
		grants = append(grants, "GRANT EXECUTE ON FUNCTION leader_token_floor()"+to)
	}
	if len(grants) > 0 {
		return only(problem(strings.Join(grants, "; "),
			"role %s lacks rights that a worker needs", role))
	}
	return only(fine("role %s may use %s", role, strings.Join(found, " and ")))
}

// lacking are those of the rights that the role does not have on a table.
func (e *examination) lacking(ctx context.Context, table string, rights []string) (
	[]string, error,
) {
	var lacks []string
	for _, right := range rights {
		var has bool
		err := e.ask(ctx, "SELECT has_table_privilege(to_regclass($1), $2)",
			[]any{table, right}, &has)
		if err != nil {
			return nil, err
		}
		if !has {
			lacks = append(lacks, right)
		}
	}
	return lacks, nil
}

// forbidden reports whether the role lacks a right.
func forbidden(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == "42501" // insufficient_privilege
}

package pgcall_test

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/pgleader/pgleader/internal/pgcall"
	"github.com/pgleader/pgleader/internal/pgfake"
)

// What an error means decides whether a process asks again, gives up, or fears that its statement
// was carried out.
func TestEachErrorMeansTheSameToEveryCaller(t *testing.T) {
	t.Parallel()
	type state = pgfake.ServerError
	type meaning struct{ permanent, undecided, rivalry, passing bool }
	for _, row := range []struct {
		err  error
		want meaning
	}{
		{state("42P01"), meaning{permanent: true}},                // undefined_table
		{state("42703"), meaning{permanent: true}},                // undefined_column
		{state("42501"), meaning{permanent: true}},                // insufficient_privilege
		{state("22021"), meaning{permanent: true}},                // character_not_in_repertoire
		{state("25006"), meaning{passing: true}},                  // read_only_sql_transaction
		{state("40001"), meaning{rivalry: true, passing: true}},   // serialization_failure
		{state("40P01"), meaning{rivalry: true, passing: true}},   // deadlock_detected
		{state("53300"), meaning{passing: true}},                  // too_many_connections
		{state("55P03"), meaning{passing: true}},                  // lock_not_available
		{state("57014"), meaning{passing: true}},                  // query_canceled
		{state("57P01"), meaning{undecided: true, passing: true}}, // admin_shutdown
		{state("P0001"), meaning{}},                               // raise_exception, of a trigger
		{state("23514"), meaning{}},                               // check_violation
		{pgfake.ErrReset, meaning{undecided: true, passing: true}},
		{pgcall.ErrUnanswered, meaning{undecided: true, passing: true}},
		{sql.ErrNoRows, meaning{undecided: true}},
	} {
		err := fmt.Errorf("wrapped: %w", pgcall.Explain(row.err))
		got := meaning{
			pgcall.Permanent(err), pgcall.Undecided(err), pgcall.Rivalry(err), pgcall.Passing(err),
		}
		if got != row.want {
			t.Errorf("%v: %+v, want %+v", row.err, got, row.want)
		}
		if !errors.Is(err, row.err) {
			t.Errorf("%v is not reachable in %v", row.err, err)
		}
	}
}

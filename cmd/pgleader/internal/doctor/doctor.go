// Package doctor looks at a database, as one role sees it, for what could keep jobs from being led.
// It only reads.
package doctor

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/explain"
	"github.com/pgleader/pgleader/leader"
)

// A Level says how bad a finding is.
type Level string

// The levels.
const (
	Fine    Level = "ok"
	Warning Level = "warning"
	Problem Level = "problem" // something does not work, or two may lead
)

// A Finding is what one check has found.
type Finding struct {
	Check   string `json:"check"`
	Level   Level  `json:"level"`
	Finding string `json:"finding"`
	Advice  string `json:"advice"` // "" if there is nothing to do
}

// A Patient is what is examined.
type Patient struct {
	Pool   *sql.DB
	Leases func(context.Context) ([]leader.Lease, error) // of all jobs
}

// LongTransaction is how old a transaction may be before it is worth a warning.
const LongTransaction = time.Hour

// limit bounds each check.
const limit = 10 * time.Second

// Examine runs every check that is possible. A check that cannot be made is worth a warning: what
// it would have found is unknown.
func Examine(ctx context.Context, patient Patient) []Finding {
	return examine(ctx, patient, LongTransaction)
}

// examine is Examine with the age of a long transaction.
func examine(ctx context.Context, patient Patient, long time.Duration) []Finding {
	connectCtx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := patient.Pool.Conn(connectCtx)
	if err != nil {
		cause := problem(explain.Advice(err), "%s", explain.Message(err))
		return named("connection", []Finding{cause})
	}
	defer conn.Close()
	e := &examination{Patient: patient, conn: conn, long: long}
	var findings []Finding
	for _, check := range []struct {
		name string
		run  func(context.Context) ([]Finding, error)
	}{
		{"connection", e.connection},
		{"writes", e.writes},
		{"migrations", e.migrations},
		{"tables", e.tables},
		{"rights", e.rights},
		{"leases", e.leases},
		{"durability", e.durability},
		{"isolation", e.isolation},
		{"timeouts", e.timeouts},
		{"pooler", e.pooler},
		{"clock", e.clock},
		{"transactions", e.transactions},
	} {
		findings = append(findings, named(check.name, attempt(ctx, check.run))...)
	}
	return findings
}

// An examination asks by one connection, so that all questions are about the same server.
type examination struct {
	Patient
	conn    *sql.Conn
	long    time.Duration // how old a transaction may be
	version int           // of the tables, as the check of migrations has found it
}

// attempt makes one check, in bounded time.
func attempt(ctx context.Context, check func(context.Context) ([]Finding, error)) []Finding {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	findings, err := check(ctx)
	if err != nil {
		return append(findings,
			warning(explain.Advice(err), "could not be checked: %s", explain.Message(err)))
	}
	return findings
}

// ask reads one row.
func (e *examination) ask(ctx context.Context, query string, args []any, values ...any) error {
	return e.conn.QueryRowContext(ctx, query, args...).Scan(values...)
}

func named(check string, findings []Finding) []Finding {
	for i := range findings {
		findings[i].Check = check
	}
	return findings
}

func fine(format string, args ...any) Finding {
	return Finding{Level: Fine, Finding: fmt.Sprintf(format, args...)}
}

func warning(advice, format string, args ...any) Finding {
	return Finding{Level: Warning, Finding: fmt.Sprintf(format, args...), Advice: advice}
}

func problem(advice, format string, args ...any) Finding {
	return Finding{Level: Problem, Finding: fmt.Sprintf(format, args...), Advice: advice}
}

// only is the result of a check that has found one thing.
func only(f Finding) ([]Finding, error) { return []Finding{f}, nil }

package main

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// A level says how bad a finding is.
type level string

const (
	fine    level = "ok"
	warning level = "warning"
	problem level = "problem" // something does not work, or two may lead
)

// A finding is one line of the doctor's.
type finding struct {
	Check   string `json:"check"`
	Level   level  `json:"level"`
	Finding string `json:"finding"`
	Advice  string `json:"advice"` // "" if there is nothing to do
}

// doctorLimit bounds each question of the doctor's.
const doctorLimit = 10 * time.Second

// longTransaction is how old a transaction may be before it is worth a warning.
const longTransaction = time.Hour

func (a *app) doctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "look for what could keep jobs from being led, and say what to do",
		Long: `doctor looks at the database as this role sees it, and prints one line for each check: ok,
warning or problem, what was found, and what to do. It only reads. Run it with the workers'
URL and role, from a worker's host.

  connection    server, database, user, search_path
  writes        a standby, or a server that takes no writes
  migrations    tables missing, older or newer than this program, or marked dirty
  tables        unlogged tables, which are empty after a crash
  rights        what the role may not do with the tables
  leases        leases that last too long, or that their holders do not renew
  durability    settings by which a crash forgets who leads
  isolation     default_transaction_isolation
  timeouts      settings that end statements, transactions or idle connections
  pooler        a pooler in transaction mode between here and the server
  clock         how far this host's clock is from the server's
  transactions  long transactions, which keep renewed rows from being vacuumed

With --json it is an array of objects with the fields check, level, finding and advice.

It exits with 0 if there is no problem, with 1 if there is one, and with 125 if it was called
wrongly. Warnings do not change the status.`,
		Example: `  pgleader doctor
  pgleader doctor --json | jq '.[] | select(.level != "ok")'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := a.operator()
			if err != nil {
				return err
			}
			defer o.close()
			findings := examine(cmd.Context(), o, longTransaction)
			if asJSON {
				err = writeJSON(a.stdout, findings)
			} else {
				a.printFindings(findings)
			}
			if err != nil {
				return err
			}
			for _, f := range findings {
				if f.Level == problem {
					return errNo
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) printFindings(findings []finding) {
	styles := map[level]style{fine: green, warning: yellow, problem: red}
	rows := [][]cell{{text("LEVEL"), text("CHECK"), text("FINDING")}}
	for _, f := range findings {
		what := f.Finding
		if f.Advice != "" {
			what += "; " + f.Advice
		}
		rows = append(rows, []cell{styled(string(f.Level), styles[f.Level]), text(f.Check), text(what)})
	}
	writeTable(a.stdout, rows)
}

// A doctor examines one database by one connection, so that all questions are about the same server.
type doctor struct {
	*operator
	conn     *sql.Conn
	long     time.Duration // how old a transaction is fine
	version  int           // of the tables
	findings []finding
}

// examine runs every check that is possible. Long is how old a transaction may be.
func examine(ctx context.Context, o *operator, long time.Duration) []finding {
	d := &doctor{operator: o, long: long}
	connectCtx, cancel := context.WithTimeout(ctx, doctorLimit)
	defer cancel()
	conn, err := o.pool.Conn(connectCtx)
	if err != nil {
		d.add("connection", problem, advice(err), "%s", tidy(withoutDriver(err)))
		return d.findings
	}
	defer conn.Close()
	d.conn = conn
	d.try(ctx, "connection", d.connection)
	d.try(ctx, "writes", d.writes)
	d.try(ctx, "migrations", d.migrations)
	d.try(ctx, "tables", d.tables)
	d.try(ctx, "leases", d.leases)
	d.try(ctx, "durability", d.durability)
	d.try(ctx, "isolation", d.isolation)
	d.try(ctx, "timeouts", d.timeouts)
	d.try(ctx, "pooler", d.pooler)
	d.try(ctx, "clock", d.clock)
	d.try(ctx, "transactions", d.transactions)
	return d.findings
}

// try runs one check. One that cannot be made is worth a warning: what it would have found is unknown.
func (d *doctor) try(ctx context.Context, name string, check func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, doctorLimit)
	defer cancel()
	if err := check(ctx); err != nil {
		d.add(name, warning, advice(err), "could not be checked: %s", tidy(withoutDriver(err)))
	}
}

func (d *doctor) add(check string, l level, advice, format string, args ...any) {
	d.findings = append(d.findings, finding{Check: check, Level: l, Finding: fmt.Sprintf(format, args...), Advice: advice})
}

// ask reads one row.
func (d *doctor) ask(ctx context.Context, query string, args []any, values ...any) error {
	return d.conn.QueryRowContext(ctx, query, args...).Scan(values...)
}

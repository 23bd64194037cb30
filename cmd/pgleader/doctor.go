package main

import (
	"github.com/spf13/cobra"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/doctor"
)

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
			o, err := a.session()
			if err != nil {
				return err
			}
			defer o.close()
			findings := doctor.Examine(cmd.Context(), doctor.Patient{Pool: o.pool, Leases: o.Leases})
			if asJSON {
				if err := writeJSON(a.stdout, findings); err != nil {
					return err
				}
			} else {
				a.printFindings(findings)
			}
			for _, f := range findings {
				if f.Level == doctor.Problem {
					return negative(nil)
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) printFindings(findings []doctor.Finding) {
	colours := map[doctor.Level]style{
		doctor.Fine: green, doctor.Warning: yellow, doctor.Problem: red,
	}
	rows := [][]cell{{text("LEVEL"), text("CHECK"), text("FINDING")}}
	for _, f := range findings {
		what := f.Finding
		if f.Advice != "" {
			what += "; " + f.Advice
		}
		rows = append(rows, []cell{
			styled(string(f.Level), colours[f.Level]), text(f.Check), text(what),
		})
	}
	writeTable(a.stdout, rows)
}

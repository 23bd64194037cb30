// Command pgleader runs any command, in any language, on exactly one of several instances, and
// shows an operator who leads what.
//
// See its help, README.md and docs/operations.md. All that decides who leads is in package leader.
// Here is one file for each subcommand; what they do is in the packages below internal.
package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/pgleader/pgleader/internal/child"
)

func main() {
	child.Main() // does not return in the process that watches a command
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is main with its surroundings as arguments.
func run(ctx context.Context, args []string, stdin, stdout, stderr *os.File) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr}
	root := a.command()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return exitStatus(stderr, root.ExecuteContext(ctx))
}

// command is pgleader with its subcommands.
func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "pgleader",
		Short: "leader election on the Postgres you already run",
		Long: `pgleader runs a command on exactly one of several instances, and on another one
when that one dies, stalls or is cut off. A row in Postgres is the lease.

It connects by --database-url, by DATABASE_URL, or by the usual PG* variables.`,
		Example: `  pgleader migrate up
  pgleader run mail-worker -- node worker.js
  pgleader slot nightly-report --schedule '0 2 * * *' --tz Europe/Paris -- ./report.sh
  pgleader status`,
		Args: cobra.NoArgs,
		// Without it an unknown command would be no error.
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.PersistentFlags().Var(&nonEmpty{"database-url", &a.databaseURL}, "database-url",
		"`URL` or key=value string of the database, which others see in ps: give no password here; "+
			"default $DATABASE_URL, then the PG* variables")
	root.SetFlagErrorFunc(badFlag)
	root.AddCommand(
		a.runCommand(), a.tryCommand(), a.slotCommand(), a.cronCommand(), a.nextCommand(),
		a.statusCommand(), a.historyCommand(), a.checkCommand(),
		a.dismissCommand(), a.rerunCommand(),
		a.migrateCommand(), a.doctorCommand(), a.versionCommand(),
	)
	return root
}

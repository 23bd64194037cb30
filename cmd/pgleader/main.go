// Command pgleader runs any command, in any language, on exactly one of several instances, and shows an operator who
// leads what.
//
// See its help, README.md and docs/operations.md. All that decides who leads is in package leader.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pgleader/pgleader/internal/child"
	"github.com/pgleader/pgleader/migrations"
)

// Exit statuses of pgleader's own; otherwise it exits with the status of the command that it ran.
const (
	exitConflict = 75  // another instance leads; EX_TEMPFAIL of sysexits.h
	exitLost     = 124 // the lease was lost while the command ran, which was ended; as timeout(1) does
	exitFailed   = 125 // pgleader itself failed, or was called wrongly; as timeout(1) and env(1) do
	// 126 and 127, as a shell: the command cannot be executed, or was not found.
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
	return a.status(root.ExecuteContext(ctx))
}

// An app is one execution of pgleader.
type app struct {
	stdin, stdout, stderr *os.File
	databaseURL           string
}

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
	root.PersistentFlags().StringVar(&a.databaseURL, "database-url", "",
		"`URL` or key=value string of the database, which others see in ps: give no password here; default $DATABASE_URL, "+
			"then the PG* variables")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return hint(err, "see '%s --help'", cmd.CommandPath())
	})
	root.AddCommand(a.runCommand(), a.tryCommand(), a.slotCommand(), a.cronCommand(), a.nextCommand())
	root.AddCommand(a.statusCommand(), a.historyCommand(), a.checkCommand(), a.dismissCommand(), a.rerunCommand())
	root.AddCommand(a.migrateCommand(), a.doctorCommand(), a.versionCommand())
	return root
}

// status prints the error, if there is one to print, and returns the exit status.
func (a *app) status(err error) int {
	if err == nil {
		return 0
	}
	var exit exitError
	if errors.As(err, &exit) && exit.err == nil {
		return exit.code
	}
	printError(a.stderr, err)
	if exit.code != 0 {
		return exit.code
	}
	return exitFailed
}

// printError prints an error and what to do about it, one line each.
func printError(w io.Writer, err error) {
	var dirty *migrations.DirtyError
	if errors.As(err, &dirty) {
		fmt.Fprintln(w, folded("pgleader: error: "+strings.TrimPrefix(dirty.Error(), "migrations: ")))
		return
	}
	fmt.Fprintf(w, "pgleader: error: %s\n", plainly(err))
	if advice := advice(err); advice != "" {
		fmt.Fprintf(w, "pgleader: hint: %s\n", advice)
	}
}

// plainly is an error's message on one line, without what a driver says beside the cause.
func plainly(err error) string { return tidy(withoutDriver(err)) }

// tidy makes one line of a message, and drops the name of the package that it came from.
func tidy(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	text = strings.TrimPrefix(strings.TrimPrefix(text, "leader: "), "migrations: ")
	return strings.ReplaceAll(text, ": leader: ", ": ")
}

// An exitError ends pgleader with a status. With a nil err nothing is printed.
type exitError struct {
	code int
	err  error
}

func (e exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

// orNil is nil for status 0.
func (e exitError) orNil() error {
	if e.code == 0 && e.err == nil {
		return nil
	}
	return e
}

func (e exitError) Unwrap() error { return e.err }

// A hintError knows what to do next.
type hintError struct {
	err  error
	hint string
}

func (e hintError) Error() string { return e.err.Error() }
func (e hintError) Unwrap() error { return e.err }

func hint(err error, format string, args ...any) error {
	return hintError{err, fmt.Sprintf(format, args...)}
}

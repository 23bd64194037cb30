package main

import (
	"github.com/spf13/cobra"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/worker"
)

func (a *app) tryCommand() *cobra.Command {
	var flags workerFlags
	var conflict int
	cmd := &cobra.Command{
		Use:   "try JOB [flags] -- COMMAND [ARG...]",
		Short: "run a command if this instance can lead the job now",
		Long: `try asks once for the lease of JOB. If it is free, try runs COMMAND under it, as
'pgleader run' does, and releases it. If another instance leads, try says which
one and exits with 75, or with --conflict-exit-code.

That keeps two runs from overlapping. It does not keep a short command from being
run by a second host a moment later: for "once at 02:00" use 'pgleader slot'.

Exit status: the command's, 128+n if signal n ended it; 75 if another instance
leads; 124 if the lease was lost; 125 if pgleader failed; 126 or 127 if the
command could not be run.`,
		Example: `  pgleader try import -- ./import.sh
  */5 * * * *  pgleader try import --quiet --conflict-exit-code 0 -- ./import.sh`,
		Args: jobAndCommand,
		RunE: func(cmd *cobra.Command, args []string) error {
			config, err := flags.config(a, cmd)
			if err != nil {
				return err
			}
			defer config.Pool.Close()
			job := worker.Job{Name: args[0], Command: args[1:]}
			result, led, err := worker.Try(cmd.Context(), config, job)
			switch {
			case err != nil:
				return err
			case !led && conflict != 0:
				return exitError{code: conflict}
			}
			return exitWith(result)
		},
	}
	flags.add(cmd)
	numberVar(cmd, &conflict, "conflict-exit-code", "", exitConflict, between(0, 255),
		"exit status if another instance leads")
	return cmd
}

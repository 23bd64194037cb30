package main

import (
	"github.com/spf13/cobra"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/worker"
)

func (a *app) runCommand() *cobra.Command {
	var flags workerFlags
	var once bool
	cmd := &cobra.Command{
		Use:   "run JOB [flags] -- COMMAND [ARG...]",
		Short: "wait until this instance leads the job, and run a command while it does",
		Long: `run waits until this instance leads JOB, runs COMMAND, and renews the lease while
it runs. Start it on every instance: exactly one of them runs the command.

When the lease is lost the command gets SIGTERM, and SIGKILL after --stop-within;
it and all that it started are dead before another instance begins. Then run
waits again. When the command ends by itself the lease is released, and run exits
with the command's status.

SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are passed on. After SIGTERM
or SIGINT the lease is kept until the command has ended, and run exits.

On a terminal COMMAND runs in the background, as with & in a shell: it can write,
but is stopped when it reads. Give it another input then, such as </dev/null.

The command finds PGLEADER_JOB, PGLEADER_HOLDER and PGLEADER_TOKEN in its
environment. Hand the token on with what the command writes, to a receiver that
refuses a smaller one than it has seen.

Exit status: the command's, 128+n if signal n ended it; 0 if run was asked to end
while it waited; 124 if the lease was lost and --once is given; 125 if pgleader
failed; 126 or 127 if the command could not be run.`,
		Example: `  pgleader run mail-worker -- node worker.js
  pgleader run mail-worker --ttl 5s --stop-within 2s -- ./worker --queue mail`,
		Args: jobAndCommand,
		RunE: func(cmd *cobra.Command, args []string) error {
			config, err := flags.config(a, cmd)
			if err != nil {
				return err
			}
			defer config.Pool.Close()
			job := worker.Job{Name: args[0], Command: args[1:]}
			result, err := worker.Run(cmd.Context(), config, job, once)
			if err != nil {
				return err
			}
			return exitWith(result)
		},
	}
	flags.add(cmd)
	cmd.Flags().BoolVar(&once, "once", false,
		"exit with 124 when the lease is lost, instead of waiting for the next term")
	return cmd
}

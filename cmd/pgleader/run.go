package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pgleader/pgleader/leader"
)

func (a *app) runCommand() *cobra.Command {
	w := &worker{app: a, forward: true}
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
			return w.run(cmd.Context(), job{name: args[0], args: args[1:]}, once)
		},
	}
	w.flags(cmd)
	cmd.Flags().BoolVar(&once, "once", false, "exit with 124 when the lease is lost, instead of waiting for the next term")
	return cmd
}

func (w *worker) run(ctx context.Context, j job, once bool) error {
	ctx, end, err := w.start(ctx)
	if err != nil {
		return err
	}
	defer end()
	var last result
	ran := false
	err = w.elector.Run(ctx, j.name, func(ctx context.Context, term *leader.Term) error {
		if ctx.Err() != nil { // nothing was run, so this is still an end while waiting
			return ctx.Err()
		}
		last, ran = w.work(ctx, j, term, nil), true
		if last.lost && once {
			w.stop()
		}
		return last.error()
	})
	switch {
	case errors.Is(err, context.Canceled) && w.asked() != nil: // while it waited, perhaps again
		return nil
	case ran && (!last.lost || once || w.asked() != nil):
		return last.exit()
	}
	return err
}

// jobAndCommand checks the arguments of run, try and slot.
func jobAndCommand(cmd *cobra.Command, args []string) error {
	before := cmd.ArgsLenAtDash() // the arguments before "--"
	if before < 0 {
		before = len(args)
	}
	switch {
	case before == 0:
		return hint(errors.New("the job is missing"), "%s", cmd.UseLine())
	case before > 1:
		return hint(fmt.Errorf("%q is neither a job nor a command", args[1]), "write -- before the command: %s", cmd.UseLine())
	case len(args) == 1:
		return hint(errors.New("the command is missing"), "write it after --: %s", cmd.UseLine())
	}
	return nil
}

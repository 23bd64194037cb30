package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pgleader/pgleader/leader"
)

func (a *app) tryCommand() *cobra.Command {
	w := &worker{app: a, forward: true}
	conflict := exitConflict
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
			return w.try(cmd.Context(), job{name: args[0], args: args[1:]}, conflict)
		},
	}
	w.flags(cmd)
	cmd.Flags().IntVar(&conflict, "conflict-exit-code", exitConflict, "exit status if another instance leads")
	return cmd
}

func (w *worker) try(ctx context.Context, j job, conflict int) error {
	if conflict < 0 || conflict > 255 {
		return fmt.Errorf("--conflict-exit-code is %d, want 0 to 255", conflict)
	}
	ctx, end, err := w.start(ctx)
	if err != nil {
		return err
	}
	defer end()
	var held leader.Event
	w.onSkip = func(event leader.Event) { held = event }
	term, ok, err := w.elector.TryAcquire(ctx, j.name)
	if sig := w.asked(); sig != nil && errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s: asked to end (%v) before the command was started", shown(j.name), sig)
	}
	if err != nil {
		return err
	}
	if !ok {
		w.say(j.name, "not run, %s leads under token %d", shown(held.Holder), held.Token)
		return exitError{code: conflict}.orNil()
	}
	r := w.work(ctx, j, term, nil)
	if err := term.Resign(); err != nil {
		w.warn(j.name, "could not release the lease, it expires within %v: %s", w.ttl, plainly(err))
	}
	return r.exit()
}

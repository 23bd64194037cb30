package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/judge"
	"github.com/pgleader/pgleader/cmd/pgleader/internal/words"
	"github.com/pgleader/pgleader/leader"
)

func (a *app) dismissCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "dismiss JOB",
		Short: "take a job away from its leader, without two at once",
		Long: `dismiss takes a job away from whoever leads it, for a leader that is stuck, or should move
to another host. The leader steps down at its next renewal. Nobody leads the job until its
lease would have expired, as the old leader may believe in it for so long; then every
candidate may be elected, the old leader too if it still runs. Stop it first to prevent that.

The lease says who did it: its holder is operator:USER@HOST and a random part until then.

It exits with 0; with 1 if nobody leads the job; with 125 if it could not ask.`,
		Example:           `  pgleader dismiss mail-worker && pgleader status --watch mail-worker`,
		Args:              oneJob,
		ValidArgsFunction: a.completeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			job := args[0]
			o, err := a.session()
			if err != nil {
				return err
			}
			defer o.close()
			lease, err := o.Dismiss(cmd.Context(), job)
			if errors.Is(err, leader.ErrNotLed) {
				return negative(words.WithHint(
					fmt.Errorf("nobody leads %s, so there is nothing to take away", words.Name(job)),
					"'pgleader status' shows the jobs that were ever led; "+
						"a candidate that runs takes a free job within seconds"))
			}
			if err != nil {
				return err
			}
			verb := "led"
			if judge.StateOf(lease) == judge.Dismissed {
				verb = "had taken it away before, and held"
			}
			fmt.Fprintf(a.stdout, "%s %s %s, under token %d, since %s\n", words.Name(lease.Holder),
				verb, words.Name(job), lease.Token, words.Instant(lease.AcquiredAt))
			fmt.Fprintf(a.stdout,
				"nobody leads it until %s, for %s; then every candidate may be elected\n",
				words.Instant(lease.ExpiresAt), words.Span(lease.Left))
			return nil
		},
	}
}

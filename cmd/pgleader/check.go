package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/explain"
	"github.com/pgleader/pgleader/cmd/pgleader/internal/judge"
	"github.com/pgleader/pgleader/cmd/pgleader/internal/operator"
)

func (a *app) checkCommand() *cobra.Command {
	var maxAge time.Duration
	cmd := &cobra.Command{
		Use:   "check JOB",
		Short: "check a job, as a plugin of Nagios, Icinga and their like",
		Long: `check prints one line, with performance data, and exits with
  0  OK
  1  WARNING
  2  CRITICAL
  3  UNKNOWN: the database could not be asked, or check was called wrongly

Without --max-age the job must have a leader; CRITICAL if it has none.

With --max-age the newest slot that was done must have finished within that time, by the
database's clock; CRITICAL otherwise, also when no slot was ever recorded and when no worker
is alive to record one. It is WARNING if that slot is recent enough, but a newer one failed,
was missed, or was cut off. A slot that 'pgleader rerun' has requested does not count as done.

Give --max-age the distance between two slots and what a run may take. For a job that runs
every night at 2, and takes up to an hour, that is 25h.`,
		Example: `  pgleader check mail-worker
  pgleader check nightly-report --max-age 25h
  line=$(pgleader check nightly-report --max-age 25h) || echo "$line" # for crontab`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := oneJob(cmd, args); err != nil {
				return a.report(unknown(err))
			}
			return nil
		},
		ValidArgsFunction: a.completeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.report(a.check(cmd.Context(), args[0], maxAge))
		},
	}
	durationVar(cmd, &maxAge, "max-age", 0, moreThanZero,
		"how long ago the newest slot that was done may have finished, such as 90m or 25h; "+
			"default: check for a leader instead")
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return a.report(unknown(plainFlagError(err)))
	})
	return cmd
}

// report prints the verdict and exits with its severity. A plugin's line is all that a monitoring
// system shows, so errors are there too.
func (a *app) report(v judge.Verdict) error {
	fmt.Fprintln(a.stdout, v.Line())
	if v.Severity == judge.OK {
		return nil
	}
	return exitError{code: int(v.Severity)}
}

// unknown is the verdict if it could not be asked.
func unknown(err error) judge.Verdict {
	text := explain.Message(err)
	if advice := explain.Advice(err); advice != "" {
		text += "; " + advice
	}
	return judge.Verdict{Severity: judge.Unknown, Text: text}
}

// check asks and judges: by the slots if maxAge is given, else by the lease.
func (a *app) check(ctx context.Context, job string, maxAge time.Duration) judge.Verdict {
	o, err := a.session()
	if err != nil {
		return unknown(err)
	}
	defer o.close()
	if maxAge == 0 {
		lease, err := o.Lease(ctx, job)
		if err != nil {
			return unknown(err)
		}
		return judge.Leader(lease)
	}
	runs, lease, now, err := o.slots(ctx, job, operator.Depth)
	if err != nil {
		return unknown(err)
	}
	return judge.Slots(runs, lease, now, maxAge)
}

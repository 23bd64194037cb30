package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/judge"
	"github.com/pgleader/pgleader/cmd/pgleader/internal/operator"
	"github.com/pgleader/pgleader/cmd/pgleader/internal/words"
	"github.com/pgleader/pgleader/schedule"
)

func (a *app) rerunCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rerun JOB SLOT",
		Short: "have a slot run again",
		Long: `rerun asks for another run of a slot that is decided: done, failed, abandoned or missed.
SLOT is its time in RFC 3339, as 'pgleader history' shows it, in any zone; or latest, the
newest slot on record.

A worker that stays up and leads the job runs it within half a minute. Where crontab starts
the workers, the next call runs it. Nothing runs it before that, and rerun does not wait.

It exits with 0; with 1 if the slot is not on record, or is running; with 125 if it could
not ask.`,
		Example: `  pgleader rerun nightly-report latest
  pgleader rerun nightly-report 2026-03-29T02:00:00+01:00`,
		Args: func(cmd *cobra.Command, args []string) error {
			return arguments(cmd, args, 2, 2, "a job and a slot")
		},
		ValidArgsFunction: a.completeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			slot, err := slotOrLatest(args[1])
			if err != nil {
				return err
			}
			o, err := a.session()
			if err != nil {
				return err
			}
			defer o.close()
			return a.rerun(cmd.Context(), o, args[0], slot)
		},
	}
}

// slotOrLatest is the zero time for the latest.
func slotOrLatest(text string) (time.Time, error) {
	if text == "latest" {
		return time.Time{}, nil
	}
	slot, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return slot, words.WithHint(fmt.Errorf("%q is not a slot", text), "write 'latest', or the "+
			"time with its zone, such as 2026-03-29T02:00:00Z; 'pgleader history JOB' shows them")
	}
	return slot, nil
}

func (a *app) rerun(ctx context.Context, o *session, job string, slot time.Time) error {
	run, err := o.Repeatable(ctx, job, slot)
	if errors.As(err, new(*operator.NotRepeatableError)) {
		return negative(err)
	}
	if err != nil {
		return err
	}
	err = o.Rerun(ctx, job, run.Slot)
	if errors.Is(err, schedule.ErrNoSlot) { // it has begun, or was deleted, since
		return negative(words.WithHint(err, "see 'pgleader history %s'", words.Name(job)))
	}
	if err != nil {
		return err
	}
	lease, err := o.Lease(ctx, job)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "slot %s of %s, %s, will run again\n",
		words.Slot(run.Slot), words.Name(job), outcome(run))
	if judge.StateOf(lease) == judge.Led {
		fmt.Fprintf(a.stdout, "%s leads the job: "+
			"if it stays up between slots, it begins within half a minute\n", words.Name(lease.Holder))
	} else {
		fmt.Fprintln(a.stdout, "nobody leads the job now: "+
			"the next leader runs it, within half a minute of its election")
	}
	fmt.Fprintln(a.stdout, "a worker that crontab starts runs it at its next call")
	return nil
}

// outcome is what became of the slot so far.
func outcome(run schedule.Record) string {
	if run.Attempt == 0 {
		return string(run.State)
	}
	return fmt.Sprintf("%s in attempt %d", run.State, run.Attempt)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgleader/pgleader/leader"
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
			return arguments(cmd, args, 2, 2,
				"a job and a slot")
		},
		ValidArgsFunction: a.completeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			job := args[0]
			var slot time.Time
			if args[1] != "latest" {
				var err error
				if slot, err = time.Parse(time.RFC3339Nano, args[1]); err != nil {
					return hint(fmt.Errorf("%q is not a slot", args[1]),
						"write 'latest', or the time with its zone, such as 2026-03-29T02:00:00Z; 'pgleader history JOB' shows them")
				}
			}
			o, err := a.operator()
			if err != nil {
				return err
			}
			defer o.close()
			run, err := o.find(cmd.Context(), job, slot)
			if err != nil {
				return err
			}
			err = o.Rerun(cmd.Context(), job, run.Slot)
			if errors.Is(err, leader.ErrNoSlot) { // it has begun, or was deleted, since
				return negative(hint(err, "see 'pgleader history %s'", shown(job)))
			}
			if err != nil {
				return err
			}
			lease, err := o.lease(cmd.Context(), job)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.stdout, "slot %s of %s, %s, will run again\n", slotStamp(run.Slot), shown(job), was(run))
			if stateOf(lease) == led {
				fmt.Fprintf(a.stdout, "%s leads the job: if it stays up between slots, it begins within half a minute\n",
					shown(lease.Holder))
			} else {
				fmt.Fprintln(a.stdout, "nobody leads the job now: the next leader runs it, within half a minute of its election")
			}
			fmt.Fprintln(a.stdout, "a worker that crontab starts runs it at its next call")
			return nil
		},
	}
}

// was is what became of the slot so far.
func was(run leader.SlotRun) string {
	if run.Attempt == 0 {
		return string(run.State)
	}
	return fmt.Sprintf("%s in attempt %d", run.State, run.Attempt)
}

// find returns the record of the slot, or of the latest one if slot is zero.
func (o *operator) find(ctx context.Context, job string, slot time.Time) (leader.SlotRun, error) {
	runs, err := o.History(ctx, job, checkDepth)
	if err != nil {
		return leader.SlotRun{}, err
	}
	if len(runs) == 0 {
		return leader.SlotRun{}, negative(hint(fmt.Errorf("no slot of %s is on record", shown(job)),
			"only slots that were run or missed can be run again; 'pgleader status' shows how the jobs are called"))
	}
	if slot.IsZero() {
		return o.repeatable(runs[0])
	}
	slot = slot.UTC().Truncate(time.Microsecond)
	for _, run := range runs {
		if run.Slot.Equal(slot) {
			return o.repeatable(run)
		}
	}
	if oldest := runs[len(runs)-1]; len(runs) == checkDepth && slot.Before(oldest.Slot) {
		return leader.SlotRun{Job: job, Slot: slot, State: "decided"}, nil // it may be on record all the same
	}
	return leader.SlotRun{}, negative(hint(fmt.Errorf("slot %s of %s is not on record", slotStamp(slot), shown(job)),
		"the nearest that are: %s", nearest(runs, slot)))
}

func (o *operator) repeatable(run leader.SlotRun) (leader.SlotRun, error) {
	if run.State != leader.SlotRunning {
		return run, nil
	}
	return run, negative(hint(fmt.Errorf("slot %s of %s is running, under %s", slotStamp(run.Slot), shown(run.Job),
		shown(run.Holder)),
		"wait for its end, or take the job away from its leader with 'pgleader dismiss'; a slot that was cut off is run "+
			"again by itself"))
}

// nearest lists the three slots on record that are closest to an instant, in the order of time.
func nearest(runs []leader.SlotRun, to time.Time) string {
	slots := slices.Clone(runs)
	slices.SortStableFunc(slots, func(a, b leader.SlotRun) int {
		return int(a.Slot.Sub(to).Abs().Microseconds() - b.Slot.Sub(to).Abs().Microseconds())
	})
	slots = slots[:min(len(slots), 3)]
	slices.SortFunc(slots, func(a, b leader.SlotRun) int { return a.Slot.Compare(b.Slot) })
	stamps := make([]string, len(slots))
	for i, run := range slots {
		stamps[i] = slotStamp(run.Slot)
	}
	return strings.Join(stamps, ", ")
}

package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/judge"
	"github.com/pgleader/pgleader/cmd/pgleader/internal/words"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

func (a *app) historyCommand() *cobra.Command {
	var limit int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "history JOB",
		Short: "show what became of a job's slots, and why",
		Long: `history shows the latest slots of a job, newest first. A slot is one scheduled time.
All times are in UTC, by the database's clock.

The state is one of
  running    its work runs
  cut off    its work ran, and its term is over: the process died, or lost the job; the
             next leader records it as abandoned
  done       its work returned without an error
  failed     its work returned an error, or its command exited with another status than 0
  abandoned  its work was cut off; it is run again, up to the policy's attempts
  missed     nobody could start it in time
  requested  'pgleader rerun' asked for another run, which has not begun

With --json it is an array of objects with the fields job, slot, state (as above, "cut_off"),
attempt, token, holder, started_at, finished_at, seconds and error. started_at is null for a
missed slot, finished_at until the slot is decided; seconds is how long the last attempt took,
or has been running, and null if that is unknown.

It exits with 0, also when nothing is on record, and with 125 if it could not ask.`,
		Example: `  pgleader history nightly-report
  pgleader history nightly-report --limit 100 --json | jq '.[] | select(.state == "failed")'`,
		Args:              oneJob,
		ValidArgsFunction: a.completeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := a.session()
			if err != nil {
				return err
			}
			defer o.close()
			runs, lease, now, err := o.slots(cmd.Context(), args[0], limit)
			if err != nil {
				return err
			}
			if asJSON {
				return a.printHistoryJSON(runs, lease, now)
			}
			if len(runs) == 0 {
				fmt.Fprintf(a.stderr, "pgleader: no slot of %s is on record\n", words.Name(args[0]))
				return nil
			}
			a.printHistory(runs, lease, now)
			return nil
		},
	}
	numberVar(cmd, &limit, "limit", "", 20, atLeast(1), "how many `slots` to show at most")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func slotColour(s schedule.State) style {
	switch s {
	case schedule.StateDone:
		return green
	case schedule.StateFailed, judge.CutOff:
		return red
	case schedule.StateAbandoned, schedule.StateMissed, schedule.StateRequested:
		return yellow
	default:
		return plain
	}
}

func (a *app) printHistory(runs []schedule.Record, lease leader.Lease, now time.Time) {
	rows := [][]cell{{
		text("SLOT"), text("STATE"), text("ATTEMPT"), text("STARTED"), text("TOOK"),
		text("HOLDER"), text("ERROR"),
	}}
	for _, run := range runs {
		s := judge.SlotState(run, lease)
		duration := "-"
		if took, known := judge.Took(run, lease, now); known {
			duration = words.Span(took)
		}
		rows = append(rows, []cell{
			text(words.Slot(run.Slot)), styled(string(s), slotColour(s)),
			text(strconv.Itoa(run.Attempt)), text(words.Instant(run.StartedAt)), text(duration),
			text(run.Holder), text(words.Brief(run.Error)),
		})
	}
	writeTable(a.stdout, rows)
}

type slotJSON struct {
	Job        string     `json:"job"`
	Slot       *time.Time `json:"slot"`
	State      string     `json:"state"`
	Attempt    int        `json:"attempt"`
	Token      int64      `json:"token"`
	Holder     string     `json:"holder"`
	StartedAt  *time.Time `json:"started_at"`
	FinishedAt *time.Time `json:"finished_at"`
	Seconds    *float64   `json:"seconds"`
	Error      string     `json:"error"`
}

func (a *app) printHistoryJSON(runs []schedule.Record, lease leader.Lease, now time.Time) error {
	rows := make([]slotJSON, len(runs))
	for i, run := range runs {
		rows[i] = slotJSON{
			Job:        run.Job,
			Slot:       jsonTime(run.Slot),
			State:      jsonName(judge.SlotState(run, lease)),
			Attempt:    run.Attempt,
			Token:      run.Token,
			Holder:     run.Holder,
			StartedAt:  jsonTime(run.StartedAt),
			FinishedAt: jsonTime(run.FinishedAt),
			Error:      run.Error,
		}
		if took, known := judge.Took(run, lease, now); known {
			seconds := took.Seconds()
			rows[i].Seconds = &seconds
		}
	}
	return writeJSON(a.stdout, rows)
}

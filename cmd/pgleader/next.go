package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/cronfile"
	"github.com/pgleader/pgleader/cmd/pgleader/internal/timetable"
	"github.com/pgleader/pgleader/cmd/pgleader/internal/words"
)

func (a *app) nextCommand() *cobra.Command {
	var one scheduleFlags
	var from string
	var count int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "next (FILE | --schedule FIELDS) [flags]",
		Short: "print the coming slots, and mark those that a clock change moves or repeats",
		Long: `next prints the coming slots of the jobs in FILE, or of one schedule, by time. It does not
connect to a database.

A time of day that the clocks skip runs once, at the first moment after the gap. One that comes
twice runs once, the first time; a schedule that comes at least every hour goes on through both.
Such slots are marked.`,
		Example: `  pgleader next /etc/pgleader.yaml
  pgleader next --schedule '30 1 * * *' --tz America/New_York --from 2026-10-30T00:00:00Z`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			after := time.Now()
			if from != "" {
				var err error
				if after, err = timetable.ParseInstant(from); err != nil {
					return err
				}
			}
			jobs, err := schedules(args, one, one.given(cmd))
			if err != nil {
				return err
			}
			coming := timetable.Next(jobs, after, count)
			if asJSON {
				return writeJSON(a.stdout, coming)
			}
			writeTable(a.stdout, comingTable(coming))
			return nil
		},
	}
	one.add(cmd)
	textVar(cmd, &from, "from", "", "print slots after this instant, in RFC 3339 (default now)")
	numberVar(cmd, &count, "count", "n", 10, between(1, 100_000), "how many slots to print")
	cmd.Flags().BoolVar(&asJSON, "json", false,
		"print a JSON array of objects with job, slot, local and note")
	return cmd
}

// schedules are those of a file's jobs, or the one that was typed, which is no job's.
func schedules(file []string, one scheduleFlags, given bool) (
	map[string]*timetable.Schedule, error,
) {
	switch {
	case len(file) == 1 && given:
		return nil, errors.New("--schedule and --tz do not go with a file")
	case len(file) == 0 && one.fields == "":
		return nil, words.WithHint(errors.New("no schedule"),
			"name a file, or give --schedule '0 2 * * *'")
	case len(file) == 0:
		schedule, err := one.schedule()
		return map[string]*timetable.Schedule{"": schedule}, err
	}
	read, err := cronfile.Read(file[0])
	if err != nil {
		return nil, err
	}
	jobs := make(map[string]*timetable.Schedule, len(read.Jobs))
	for name, job := range read.Jobs {
		jobs[name] = job.Schedule
	}
	return jobs, nil
}

func comingTable(slots []timetable.Coming) [][]cell {
	rows := [][]cell{{text("SLOT"), text("LOCAL TIME"), text("JOB"), text("")}}
	for _, s := range slots {
		rows = append(rows, []cell{
			text(words.Instant(s.Slot)), text(s.Local), text(s.Job), styled(s.Note, yellow),
		})
	}
	return rows
}

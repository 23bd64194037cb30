package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
)

func (a *app) nextCommand() *cobra.Command {
	var spec, zone, from string
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
			at := time.Now()
			var err error
			if from != "" {
				at, err = parseSlot(from)
			}
			if err != nil {
				return err
			}
			if count < 1 || count > 100_000 {
				return fmt.Errorf("--count is %d, want 1 to 100000", count)
			}
			file, err := scheduleOrFile(spec, zone, args)
			if err != nil {
				return err
			}
			coming := coming(file, at, count)
			if asJSON {
				return writeJSON(a.stdout, coming)
			}
			writeTable(a.stdout, table(coming))
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&spec, "schedule", "", "time fields of a crontab line: minute hour day month weekday")
	f.StringVar(&zone, "tz", "", "time zone of --schedule, such as Europe/Paris (default UTC)")
	f.StringVar(&from, "from", "", "print slots after this instant, in RFC 3339 (default now)")
	f.IntVarP(&count, "count", "n", 10, "how many slots to print")
	f.BoolVar(&asJSON, "json", false, "print a JSON array of objects with job, slot, local and note")
	return cmd
}

func scheduleOrFile(spec, zone string, args []string) (*cronFile, error) {
	switch {
	case len(args) == 1 && spec == "" && zone == "":
		return readCronFile(args[0])
	case len(args) == 1:
		return nil, errors.New("--schedule and --tz do not go with a file")
	case spec == "":
		return nil, hint(errors.New("no schedule"), "name a file, or give --schedule '0 2 * * *'")
	}
	schedule, location, err := parseSchedule(spec, zone)
	if err != nil {
		return nil, err
	}
	return &cronFile{Jobs: map[string]*cronJob{"": {Schedule: spec, schedule: schedule, location: location}}}, nil
}

// A comingSlot is one line of next.
type comingSlot struct {
	Job   string    `json:"job,omitempty"`
	Slot  time.Time `json:"slot"`
	Local string    `json:"local"`
	Note  string    `json:"note,omitempty"`
}

// coming merges the next slots of all jobs.
func coming(file *cronFile, from time.Time, count int) []comingSlot {
	slots := make([]comingSlot, 0, count)
	heads := make(map[string]time.Time)
	for name, j := range file.Jobs {
		heads[name] = j.schedule.Next(from.UTC())
	}
	names := slices.Sorted(maps.Keys(file.Jobs))
	for len(slots) < count {
		first := ""
		var at time.Time
		for _, name := range names {
			if head := heads[name]; !head.IsZero() && (at.IsZero() || head.Before(at)) {
				first, at = name, head
			}
		}
		if at.IsZero() {
			break
		}
		j := file.Jobs[first]
		slots = append(slots, comingSlot{Job: first, Slot: at.UTC(), Local: at.In(j.location).Format("Mon 2006-01-02 15:04:05 MST"), Note: clockChange(j, at)})
		heads[first] = j.schedule.Next(at)
	}
	return slots
}

func table(slots []comingSlot) [][]cell {
	rows := [][]cell{{text("SLOT"), text("LOCAL TIME"), text("JOB"), text("")}}
	for _, s := range slots {
		rows = append(rows, []cell{text(stamp(s.Slot)), text(s.Local), text(s.Job), styled(s.Note, yellow)})
	}
	return rows
}

// clockChange says what a change of the clocks does to a slot.
func clockChange(j *cronJob, at time.Time) string {
	local := at.In(j.location)
	start, end := local.ZoneBounds()
	_, offset := local.Zone()
	if !start.IsZero() {
		_, before := start.Add(-1).In(j.location).Zone()
		shift := time.Duration(offset-before) * time.Second
		switch {
		case shift > 0 && at.Equal(start) && !meant(j, local):
			return fmt.Sprintf("moved: the clocks skip from %s to %s", start.In(time.FixedZone("", before)).Format("15:04"), local.Format("15:04"))
		case shift < 0 && at.Before(start.Add(-shift)):
			return "the second time that the clocks show this"
		}
	}
	if !end.IsZero() {
		_, after := end.In(j.location).Zone()
		shift := time.Duration(offset-after) * time.Second
		if shift > 0 && !at.Before(end.Add(-shift)) {
			if j.schedule.Next(at.Add(shift - 1)).Equal(at.Add(shift)) {
				return "the first time that the clocks show this"
			}
			return "the clocks show this twice: run the first time only"
		}
	}
	return ""
}

// meant reports whether the schedule names this local time.
func meant(j *cronJob, local time.Time) bool {
	parsed, err := crontabLine.Parse(j.Schedule)
	if err != nil {
		return true
	}
	wall := time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), local.Second(), 0, time.UTC)
	return parsed.Next(wall.Add(-1)).Equal(wall)
}

package main

import (
	"github.com/spf13/cobra"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/timetable"
)

// scheduleFlags are the flags of every command that takes one schedule.
type scheduleFlags struct{ fields, zone string }

func (s *scheduleFlags) add(cmd *cobra.Command) {
	textVar(cmd, &s.fields, "schedule", "",
		"time fields of a crontab line: minute hour day month weekday")
	textVar(cmd, &s.zone, "tz", timetable.DefaultZone,
		"time zone of --schedule, such as Europe/Paris")
}

// given reports whether the user gave a schedule, or part of one.
func (s *scheduleFlags) given(cmd *cobra.Command) bool {
	return cmd.Flags().Changed("schedule") || cmd.Flags().Changed("tz")
}

// schedule is what the flags say.
func (s *scheduleFlags) schedule() (*timetable.Schedule, error) {
	zone, err := timetable.ParseZone(s.zone)
	if err != nil {
		return nil, err
	}
	return timetable.Parse(s.fields, zone)
}

package main

import (
	"github.com/spf13/cobra"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/cronfile"
	"github.com/pgleader/pgleader/cmd/pgleader/internal/crontab"
)

func (a *app) cronCommand() *cobra.Command {
	var flags workerFlags
	cmd := &cobra.Command{
		Use:   "cron FILE",
		Short: "run the jobs of a file on their schedules, each slot on one of the instances",
		Long: `cron is a resident worker that replaces the crontabs of several hosts. Start it with the
same file on each of them: every slot of every job is run by one, and by another one if
that dies. 'pgleader next FILE' shows what comes.

The file is YAML:

  time_zone: Europe/Paris          # of jobs that name none; default UTC
  jobs:
    nightly-report:
      schedule: "0 2 * * *"        # minute hour day month weekday
      time_zone: America/New_York
      command: [node, report.js]   # a list of arguments, or a line for sh -c
      dir: /srv/reports
      env: {REPORT_FORMAT: pdf}
      grace: 1h                    # how late a slot may start; default 1h
      catch_up: latest             # of several due slots run: latest, all, or skip them
      attempts: 3                  # starts of a slot that is cut off; default 3
      repeat_failed: false         # run a slot again if the command failed
      keep: 2160h                  # how long records are kept; default 90 days

A field that is left out has its default. One that is misspelt, empty, zero or out of its range
is refused, with its line.

SIGHUP reads the file again: a command that runs is left to its end, a job that was taken
out or changed is stopped after it. A file with an error is refused, and the old one stays.
SIGTERM and SIGINT are passed on to the commands; cron exits when they have ended. A slot
whose command fails then is run again by another instance.`,
		Example: `  pgleader cron /etc/pgleader.yaml`,
		Args:    oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := cronfile.Read(args[0])
			if err != nil {
				return err
			}
			config, err := flags.config(a, cmd)
			if err != nil {
				return err
			}
			defer config.Pool.Close()
			return crontab.Run(cmd.Context(), config, args[0], file)
		},
	}
	flags.add(cmd)
	return cmd
}

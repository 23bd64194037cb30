package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/slotrun"
	"github.com/pgleader/pgleader/cmd/pgleader/internal/timetable"
	"github.com/pgleader/pgleader/cmd/pgleader/internal/words"
	"github.com/pgleader/pgleader/cmd/pgleader/internal/worker"
	"github.com/pgleader/pgleader/schedule"
)

func (a *app) slotCommand() *cobra.Command {
	var flags workerFlags
	var asked slotFlags
	cmd := &cobra.Command{
		Use:   "slot JOB (--schedule FIELDS | --slot TIME) [flags] -- COMMAND [ARG...]",
		Short: "run a command once for the slot that is due, on whichever host comes first",
		Long: `slot runs COMMAND for the slot of a schedule that is due, unless it has been run. It is
made for a crontab on several hosts: whoever comes first runs the command, the others
say who it was and exit with 0. Which slot is due is decided by the database's clock,
not by the hosts'. A host whose clock is ahead waits for the slot (--early).

What became of each slot is on record: see 'pgleader history JOB'. A slot that was cut
off is run again by the next call; so let crontab call every ten minutes or so, of which
--schedule takes one. Or use --stand-by: another host waits, and takes over at once. A slot
whose command exits with another status than 0 has failed, and is not run again unless
asked by --repeat-failed or 'pgleader rerun'. Slots that nobody ran are recorded as missed.

The command finds PGLEADER_SLOT and PGLEADER_ATTEMPT in its environment, beside the
variables of 'pgleader run'; it gets the same signals and is ended in the same way.

Exit status: the command's, of several slots that of the first that failed; 128+n if signal n
ended it; 0 if there was nothing to do here; 124 if the lease was lost; 125 if pgleader failed;
126 or 127 if the command could not be run.`,
		Example: `  pgleader slot nightly-report --slot 2026-11-29T02:00:00Z -- ./report.sh
  */10 * * * *  pgleader slot report -q --schedule '0 2 * * *' --tz Europe/Paris -- node report.js`,
		Args: jobAndCommand,
		RunE: func(cmd *cobra.Command, args []string) error {
			call, err := asked.call(cmd)
			if err != nil {
				return err
			}
			call.Job = worker.Job{Name: args[0], Command: args[1:]}
			config, err := flags.config(a, cmd)
			if err != nil {
				return err
			}
			defer config.Pool.Close()
			result, err := slotrun.Run(cmd.Context(), config, call)
			if err != nil {
				return err
			}
			return exitWith(result)
		},
	}
	flags.add(cmd)
	asked.add(cmd)
	return cmd
}

// slotFlags say which slot to run, and how.
type slotFlags struct {
	due      scheduleFlags
	at       string
	policy   schedule.Policy
	catchUp  string
	early    time.Duration
	retryFor time.Duration
	standBy  bool
}

func (s *slotFlags) add(cmd *cobra.Command) {
	s.policy = timetable.DefaultPolicy()
	p := &s.policy
	f := cmd.Flags()
	s.due.add(cmd)
	textVar(cmd, &s.at, "slot", "",
		"run the slot of this instant, in RFC 3339, instead of the one that is due")
	durationVar(cmd, &s.early, "early", time.Minute, atLeast(time.Duration(0)),
		"how long to wait for a slot that is about to come, for a host whose clock is ahead")
	durationVar(cmd, &s.retryFor, "retry-for", time.Minute, atLeast(time.Duration(0)),
		"how long to try again while the database cannot be reached")
	f.BoolVar(&s.standBy, "stand-by", false,
		"while another host runs the slot, wait, and run it again if that host dies")
	durationVar(cmd, &p.Grace, "grace", p.Grace, judgedLater,
		"how late a slot may start; a later one is recorded as missed")
	textVar(cmd, &s.catchUp, "catch-up", string(p.CatchUp),
		"which of several due slots to run: latest, or all")
	numberVar(cmd, &p.Attempts, "attempts", "", p.Attempts, judgedLater,
		"how often a slot is started at most, if it is cut off")
	f.BoolVar(&p.RepeatFailed, "repeat-failed", false,
		"run a slot again, up to --attempts, if the command failed")
	durationVar(cmd, &p.Keep, "keep", p.Keep, judgedLater, "how long the records of slots are kept")
	cmd.MarkFlagsOneRequired("schedule", "slot")
	cmd.MarkFlagsMutuallyExclusive("schedule", "slot")
}

// call is what the flags say.
func (s *slotFlags) call(cmd *cobra.Command) (slotrun.Call, error) {
	call := slotrun.Call{Early: s.early, RetryFor: s.retryFor, StandBy: s.standBy}
	var err error
	if s.at != "" {
		for _, name := range []string{
			"tz", "grace", "catch-up", "attempts", "repeat-failed", "keep",
		} {
			if cmd.Flags().Changed(name) {
				return call, words.WithHint(fmt.Errorf("--%s does not go with --slot", name),
					"leave it out: it belongs to --schedule; the slot is started up to 3 times if it "+
						"is cut off, and after a failure by 'pgleader rerun' only")
			}
		}
		call.At, err = timetable.ParseInstant(s.at)
		return call, err
	}
	if call.Policy, err = s.checkedPolicy(); err != nil {
		return call, err
	}
	call.Schedule, err = s.due.schedule()
	return call, err
}

// checkedPolicy refuses what cannot be honoured. A call runs something or nothing: it has no slots
// to skip.
func (s *slotFlags) checkedPolicy() (schedule.Policy, error) {
	p := s.policy
	p.CatchUp = schedule.CatchUp(s.catchUp)
	if p.CatchUp != schedule.CatchUpLatest && p.CatchUp != schedule.CatchUpAll {
		return p, &flagError{
			"catch-up", s.catchUp, fmt.Sprintf("%s or %s", schedule.CatchUpLatest, schedule.CatchUpAll),
		}
	}
	err := timetable.CheckPolicy(p)
	var wrong *timetable.FieldError
	if errors.As(err, &wrong) {
		return p, fmt.Errorf("--%s %s", strings.ReplaceAll(wrong.Field, "_", "-"), wrong.Problem)
	}
	return p, err
}

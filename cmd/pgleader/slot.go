package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgleader/pgleader/leader"
)

func (a *app) slotCommand() *cobra.Command {
	s := &slotRun{worker: &worker{app: a, forward: true}}
	var at string
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
		Example: `  */10 * * * *  pgleader slot report -q --schedule '0 2 * * *' --tz Europe/Paris -- node report.js
  pgleader slot nightly-report --slot 2026-11-29T02:00:00Z -- ./report.sh`,
		Args: jobAndCommand,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range []string{"tz", "grace", "catch-up", "attempts", "repeat-failed", "keep"} {
				if at != "" && cmd.Flags().Changed(name) {
					return hint(fmt.Errorf("--%s does not go with --slot", name), "leave it out: it belongs to --schedule; the slot is "+
						"started up to 3 times if it is cut off, and after a failure by 'pgleader rerun' only")
				}
			}
			s.job = job{name: args[0], args: args[1:]}
			return s.run(cmd.Context(), at)
		},
	}
	s.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&s.spec, "schedule", "", "time fields of a crontab line: minute hour day month weekday")
	f.StringVar(&s.zone, "tz", "", "time zone of --schedule, such as Europe/Paris (default UTC)")
	f.StringVar(&at, "slot", "", "run the slot of this instant, in RFC 3339, instead of the one that is due")
	f.DurationVar(&s.early, "early", time.Minute, "how long to wait for a slot that is about to come, for a host whose clock is ahead")
	f.DurationVar(&s.retryFor, "retry-for", time.Minute, "how long to try again while the database cannot be reached")
	f.BoolVar(&s.standBy, "stand-by", false, "while another host runs the slot, wait, and run it again if that host dies")
	policyFlags(cmd, &s.policy)
	cmd.MarkFlagsOneRequired("schedule", "slot")
	cmd.MarkFlagsMutuallyExclusive("schedule", "slot")
	return cmd
}

// policyFlags adds the fields of a policy as flags.
func policyFlags(cmd *cobra.Command, p *leader.Policy) {
	f := cmd.Flags()
	f.DurationVar(&p.Grace, "grace", time.Hour, "how late a slot may start; a later one is recorded as missed")
	f.StringVar((*string)(&p.CatchUp), "catch-up", string(leader.CatchUpLatest), "which of several due slots to run: latest, or all")
	f.IntVar(&p.Attempts, "attempts", 3, "how often a slot is started at most, if it is cut off")
	f.BoolVar(&p.RepeatFailed, "repeat-failed", false, "run a slot again, up to --attempts, if the command failed")
	f.DurationVar(&p.Keep, "keep", 90*24*time.Hour, "how long the records of slots are kept")
}

// A slotRun is one call of pgleader slot.
type slotRun struct {
	*worker
	job      job
	spec     string
	zone     string
	early    time.Duration
	retryFor time.Duration
	standBy  bool
	policy   leader.Policy

	last result    // of the last command, or of the first slot that failed
	at   time.Time // which slot that was
	ran  bool      // whether there was one
}

func (s *slotRun) run(ctx context.Context, at string) error {
	var schedule leader.Schedule
	var slot time.Time
	var err error
	if at == "" {
		schedule, _, err = parseSchedule(s.spec, s.zone)
	} else {
		slot, err = parseSlot(at)
	}
	if err != nil {
		return err
	}
	ctx, end, err := s.start(ctx)
	if err != nil {
		return err
	}
	defer end()
	if schedule != nil {
		slot, err = s.due(ctx, schedule)
	}
	if err == nil && !slot.IsZero() {
		err = s.single(ctx, slot)
	}
	switch {
	case s.ran:
		return s.last.exit()
	case s.asked() != nil && errors.Is(err, context.Canceled):
		return nil
	}
	return err
}

// due runs what is due by the schedule. It returns a slot that another host is running, if this one is to stand by for it.
func (s *slotRun) due(ctx context.Context, schedule leader.Schedule) (time.Time, error) {
	for {
		var due leader.Due
		err := s.patiently(ctx, func() (err error) {
			due, err = s.elector.RunDue(ctx, s.job.name, schedule, s.policy, s.command)
			return err
		})
		switch wait := due.Next.Sub(due.Now); {
		case s.ran:
			return time.Time{}, nil // its exit status says all
		case err != nil:
			return time.Time{}, err
		case due.Leader.Dismissed():
			s.say(s.job.name, "%s took the job away, it is free in %s, waiting", shown(due.Leader.Holder), span(due.Leader.Left))
			if err := pause(ctx, due.Leader.Left+time.Millisecond); err != nil {
				return time.Time{}, err
			}
		case due.Leader.Job != "" && s.standBy && !due.Slot.IsZero():
			return due.Slot, nil
		case due.Leader.Job != "":
			s.say(s.job.name, "nothing to do for slot %s, %s leads the job under token %d", stamp(due.Slot), shown(due.Leader.Holder), due.Leader.Token)
			return time.Time{}, nil
		case !due.Next.IsZero() && wait <= s.early && (due.Slot.IsZero() || wait < due.Now.Sub(due.Slot)):
			s.say(s.job.name, "slot %s comes in %s by the database's clock, waiting", stamp(due.Next), span(wait))
			if err := pause(ctx, wait); err != nil {
				return time.Time{}, err
			}
		default:
			if at := newest(schedule, due.Now); due.Slot.IsZero() && !at.IsZero() {
				s.say(s.job.name, "slot %s came %s ago, and --grace is %s: too late to begin with it; the next one is %s",
					stamp(at), span(due.Now.Sub(at)), span(s.policy.Grace), stamp(due.Next))
				return time.Time{}, nil
			}
			return time.Time{}, s.tell(ctx, due)
		}
	}
}

// newest is the last instant of the schedule up to now, if it is at most two days old.
func newest(schedule leader.Schedule, now time.Time) time.Time {
	var last time.Time
	for back := time.Minute; last.IsZero() && back < 7*24*time.Hour; back *= 4 { // so that one of every second takes few steps
		for at := schedule.Next(now.Add(-back)); !at.IsZero() && !at.After(now); at = schedule.Next(at) {
			last = at
		}
	}
	return last
}

// single runs one slot, or says what became of it.
func (s *slotRun) single(ctx context.Context, at time.Time) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var rival string
	if !s.standBy {
		s.onWait = func(event leader.Event) {
			if event.Job == s.job.name {
				rival = event.Holder
				cancel()
			}
		}
	}
	if err := s.near(ctx, at); err != nil {
		return err
	}
	ran := false
	err := s.patiently(ctx, func() (err error) {
		ran, err = s.elector.RunSlot(ctx, s.job.name, at, s.command)
		return err
	})
	switch {
	case s.ran:
		return nil
	case rival != "":
		s.say(s.job.name, "nothing to do for slot %s, %s leads the job", stamp(at), shown(rival))
		return nil
	case err == nil && !ran:
		return s.tell(ctx, leader.Due{Slot: at})
	}
	return err
}

// near refuses a slot that does not come soon: a typing error should not hang a shell.
func (s *slotRun) near(ctx context.Context, at time.Time) error {
	return s.patiently(ctx, func() error {
		// It says which tables or rights are missing; the question for the time does not.
		if _, err := s.elector.History(ctx, s.job.name, 1); err != nil {
			return err
		}
		now, err := s.now(ctx)
		if err == nil && at.Sub(now) > s.early {
			err = hint(fmt.Errorf("slot %s comes in %s by the database's clock", stamp(at), span(at.Sub(now))),
				"call again at that time, or raise --early to wait for it")
		}
		return err
	})
}

// command is the work of a slot.
func (s *slotRun) command(ctx context.Context, slot *leader.Slot) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r := s.work(ctx, s.job, slot.Term(), slot)
	if !s.ran || s.last.error() == nil || slot.Time().Equal(s.at) {
		s.last, s.ran, s.at = r, true, slot.Time()
	}
	return r.error()
}

// tell says what became of a slot that has nothing to be done about.
func (s *slotRun) tell(ctx context.Context, due leader.Due) error {
	if due.Slot.IsZero() {
		s.say(s.job.name, "no slot is due, the next one is %s", stamp(due.Next))
		return nil
	}
	runs, err := s.elector.History(ctx, s.job.name, 100)
	if err != nil {
		return err
	}
	for _, run := range runs {
		if run.Slot.Equal(due.Slot.Truncate(time.Microsecond)) {
			s.say(s.job.name, "nothing to do, slot %s is on record as %s, by %s%s", stamp(run.Slot), run.State, shown(run.Holder), because(run.Error))
			return nil
		}
	}
	s.say(s.job.name, "nothing to do for slot %s", stamp(due.Slot))
	return nil
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + shown(why)
}

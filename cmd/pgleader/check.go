package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgleader/pgleader/leader"
)

// A severity is the exit status of a monitoring plugin, by the rules that Nagios made and its successors keep.
type severity int

const (
	isOK severity = iota
	isWarning
	isCritical
	isUnknown
)

func (s severity) String() string { return [...]string{"OK", "WARNING", "CRITICAL", "UNKNOWN"}[s] }

// A verdict is what a check prints: one line.
type verdict struct {
	severity severity
	text     string
	perf     string // performance data, "" if there is none
}

// line keeps to one line, and keeps out of it the bar that begins the performance data.
func (v verdict) line() string {
	line := fmt.Sprintf("%v: %s", v.severity, strings.ReplaceAll(strings.Join(strings.Fields(v.text), " "), "|", "¦"))
	if v.perf != "" {
		line += " | " + v.perf
	}
	return line
}

// checkDepth is how many slots are searched for one that was done.
const checkDepth = 1000

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
			if cmd.Flags().Changed("max-age") && maxAge <= 0 {
				return a.report(unknown(fmt.Errorf("--max-age is %v, want a positive time such as 25h", maxAge)))
			}
			return a.report(a.check(cmd.Context(), args[0], maxAge))
		},
	}
	cmd.Flags().DurationVar(&maxAge, "max-age", 0,
		"how long ago the newest slot that was done may have finished, such as 90m or 25h; default: check for a leader instead")
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return a.report(unknown(err)) })
	return cmd
}

// report prints the verdict and exits with its severity. A plugin's line is all that a monitoring system shows, so
// errors are there too.
func (a *app) report(v verdict) error {
	fmt.Fprintln(a.stdout, v.line())
	if v.severity == isOK {
		return nil
	}
	return exitError{code: int(v.severity)}
}

func unknown(err error) verdict {
	text := tidy(withoutDriver(err))
	if advice := advice(err); advice != "" {
		text += "; " + advice
	}
	return verdict{severity: isUnknown, text: text}
}

func (a *app) check(ctx context.Context, job string, maxAge time.Duration) verdict {
	o, err := a.operator()
	if err != nil {
		return unknown(err)
	}
	defer o.close()
	var runs []leader.SlotRun
	if maxAge > 0 {
		if runs, err = o.History(ctx, job, checkDepth); err != nil {
			return unknown(err)
		}
	}
	lease, err := o.lease(ctx, job)
	if err != nil {
		return unknown(err)
	}
	if maxAge == 0 {
		return judgeLeader(lease)
	}
	now, err := o.now(ctx, job)
	if err != nil {
		return unknown(err)
	}
	return judgeSlots(runs, lease, now, maxAge)
}

// judgeLeader wants a leader.
func judgeLeader(lease leader.Lease) verdict {
	who := leadership(lease)
	if stateOf(lease) != led {
		return verdict{severity: isCritical, text: shown(lease.Job) + ": " + who}
	}
	if ahead, is := renewedAhead(lease); is {
		return verdict{severity: isWarning, text: fmt.Sprintf("%s: %s has the lease and renewed it last %s in the future: the server's clock was set back, "+
			"and nobody renewed it since; ask 'pgleader doctor'", shown(lease.Job), shown(lease.Holder), span(ahead))}
	}
	ttl := lease.ExpiresAt.Sub(lease.RenewedAt)
	perf := fmt.Sprintf("left=%.3fs;;;0;%.3f", lease.Left.Seconds(), ttl.Seconds())
	return verdict{isOK, shown(lease.Job) + ": " + who, perf}
}

// leadership says who leads, or since when nobody does.
func leadership(l leader.Lease) string {
	switch stateOf(l) {
	case led:
		return fmt.Sprintf("%s has led it for %s", shown(l.Holder), span(asOf(l).Sub(l.AcquiredAt)))
	case dismissed:
		return fmt.Sprintf("nobody leads it: %s took it away; it is free in %s", shown(l.Holder), span(l.Left))
	case noLeader:
		return fmt.Sprintf("nobody has led it for %s; the last leader was %s", span(asOf(l).Sub(l.ExpiresAt)), shown(l.Holder))
	default:
		return "nobody has ever led it"
	}
}

// judgeSlots wants the newest slot that was done to have finished within maxAge. Runs are the latest slots, newest
// first.
func judgeSlots(runs []leader.SlotRun, lease leader.Lease, now time.Time, maxAge time.Duration) verdict {
	var done *leader.SlotRun
	newer := runs
	for i := range runs {
		if runs[i].State == leader.SlotDone {
			done, newer = &runs[i], runs[:i]
			break
		}
	}
	last, bad := since(newer, lease, now)
	name := shown(lease.Job) + ": "
	switch {
	case len(runs) == 0:
		return verdict{severity: isCritical, text: name + "no slot is on record; " + leadership(lease)}
	case done == nil:
		return verdict{severity: isCritical, text: fmt.Sprintf("%snone of the latest %d slots was done; %s; %s", name,
			len(runs), last, leadership(lease))}
	}
	age := now.Sub(done.FinishedAt)
	v := verdict{perf: fmt.Sprintf("age=%.0fs;;%.0f;0", age.Seconds(), maxAge.Seconds())}
	what := fmt.Sprintf("%sslot %s was done %s ago", name, slotStamp(done.Slot), span(age))
	switch {
	case age > maxAge:
		v.severity, v.text = isCritical, fmt.Sprintf("%s, more than %s; since then %s; %s", what, span(maxAge), last,
			leadership(lease))
	case bad:
		v.severity, v.text = isWarning, what+", but "+last
	default:
		v.text = what + " by " + shown(done.Holder)
	}
	return v
}

// since tells what became of the slots that came after the one that was done: the newest of them that went wrong, else
// the newest.
func since(newer []leader.SlotRun, lease leader.Lease, now time.Time) (what string, bad bool) {
	if len(newer) == 0 {
		return "nothing is on record", false
	}
	telling := newer[0]
	for _, run := range newer {
		switch slotState(run, lease) {
		case leader.SlotFailed, leader.SlotAbandoned, leader.SlotMissed, cutOff:
			telling, bad = run, true
		default:
			continue
		}
		break
	}
	what = "slot " + slotStamp(telling.Slot)
	switch s := slotState(telling, lease); s {
	case leader.SlotRunning:
		d, _ := took(telling, lease, now)
		what += " has been running for " + span(d)
	case leader.SlotRequested:
		what += " waits for the run that was requested"
	case cutOff:
		what += " was cut off: the term of " + telling.Holder + " is over"
	case leader.SlotMissed, leader.SlotAbandoned:
		what += " was " + string(s)
	default:
		what += " " + string(s)
	}
	if telling.Error != "" {
		what += " (" + brief(telling.Error) + ")"
	}
	if more := len(newer) - 1; more > 0 {
		what += fmt.Sprintf(", and %d more came", more)
	}
	return what, bad
}

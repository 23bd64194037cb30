package judge

import (
	"fmt"
	"strings"
	"time"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/words"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

// A Severity is the exit status of a monitoring plugin, by the rules that Nagios made and its
// successors keep.
type Severity int

// The severities.
const (
	OK Severity = iota
	Warning
	Critical
	Unknown // it could not be asked
)

func (s Severity) String() string { return [...]string{"OK", "WARNING", "CRITICAL", "UNKNOWN"}[s] }

// A Verdict is what a check prints.
type Verdict struct {
	Severity Severity
	Text     string
	Perf     string // performance data, "" if there is none
}

// Line is the verdict on one line. The bar that begins the performance data is nowhere else in it.
func (v Verdict) Line() string {
	line := fmt.Sprintf("%v: %s", v.Severity, strings.ReplaceAll(words.OneLine(v.Text), "|", "¦"))
	if v.Perf != "" {
		line += " | " + v.Perf
	}
	return line
}

// Leader wants the job to have a leader that renews its lease.
func Leader(lease leader.Lease) Verdict {
	name := words.Name(lease.Job) + ": "
	who := leadership(lease)
	if StateOf(lease) != Led {
		return Verdict{Severity: Critical, Text: name + who}
	}
	if ahead, setBack := RenewedAhead(lease); setBack {
		return Verdict{Severity: Warning, Text: fmt.Sprintf("%s%s has the lease and renewed it last "+
			"%s in the future: the server's clock was set back, and nobody renewed it since; "+
			"ask 'pgleader doctor'", name, words.Name(lease.Holder), words.Span(ahead))}
	}
	ttl := lease.ExpiresAt.Sub(lease.RenewedAt)
	perf := fmt.Sprintf("left=%.3fs;;;0;%.3f", lease.Left.Seconds(), ttl.Seconds())
	return Verdict{OK, name + who, perf}
}

// Slots wants the newest slot that was done to have finished within maxAge. Runs are the job's
// latest slots, newest first, and the lease was read after them.
func Slots(
	runs []schedule.Record, lease leader.Lease, now time.Time, maxAge time.Duration,
) Verdict {
	name := words.Name(lease.Job) + ": "
	done, newer := newestDone(runs)
	last, bad := sinceThen(newer, lease, now)
	switch {
	case len(runs) == 0:
		return Verdict{
			Severity: Critical,
			Text:     name + "no slot is on record; " + leadership(lease),
		}
	case done == nil:
		return Verdict{
			Severity: Critical,
			Text: fmt.Sprintf("%snone of the latest %d slots was done; %s; %s",
				name, len(runs), last, leadership(lease)),
		}
	}
	age := now.Sub(done.FinishedAt)
	v := Verdict{Perf: fmt.Sprintf("age=%.0fs;;%.0f;0", age.Seconds(), maxAge.Seconds())}
	what := fmt.Sprintf("%sslot %s was done %s ago", name, words.Slot(done.Slot), words.Span(age))
	switch {
	case age > maxAge:
		v.Severity, v.Text = Critical, fmt.Sprintf("%s, more than %s; since then %s; %s",
			what, words.Span(maxAge), last, leadership(lease))
	case bad:
		v.Severity, v.Text = Warning, what+", but "+last
	default:
		v.Text = what + " by " + words.Name(done.Holder)
	}
	return v
}

// sinceThen tells what became of the slots that came after the one that was done: the newest of
// them that went wrong, else the newest.
func sinceThen(newer []schedule.Record, lease leader.Lease, now time.Time) (what string, bad bool) {
	if len(newer) == 0 {
		return "nothing is on record", false
	}
	telling := newer[0]
	for _, run := range newer {
		if wentWrong(SlotState(run, lease)) {
			telling, bad = run, true
			break
		}
	}
	what = "slot " + words.Slot(telling.Slot)
	switch s := SlotState(telling, lease); s {
	case schedule.StateRunning:
		took, _ := Took(telling, lease, now)
		what += " has been running for " + words.Span(took)
	case schedule.StateRequested:
		what += " waits for the run that was requested"
	case CutOff:
		what += " was cut off: the term of " + words.Name(telling.Holder) + " is over"
	case schedule.StateMissed, schedule.StateAbandoned:
		what += " was " + string(s)
	default:
		what += " " + string(s)
	}
	if telling.Error != "" {
		what += " (" + words.Brief(telling.Error) + ")"
	}
	if more := len(newer) - 1; more > 0 {
		what += fmt.Sprintf(", and %d more came", more)
	}
	return what, bad
}

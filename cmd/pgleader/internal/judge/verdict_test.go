package judge

import (
	"strings"
	"testing"
	"time"

	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

func TestSlotsAreJudgedByTheNewestThatWasDone(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC)
	night := func(days int) time.Time { return time.Date(2026, 3, 10-days, 2, 0, 0, 0, time.UTC) }
	slot := func(days int, state schedule.State) schedule.Record {
		run := schedule.Record{
			Job: "report", Slot: night(days), State: state, Attempt: 1, Token: 4, Holder: "web-1",
			StartedAt: night(days),
		}
		if state != schedule.StateRunning && state != schedule.StateRequested {
			run.FinishedAt = night(days).Add(10 * time.Minute)
		}
		if state != schedule.StateDone && state != schedule.StateRunning {
			run.Error = "why " + string(state)
		}
		return run
	}
	live := leader.Lease{
		Job: "report", Holder: "web-1", Token: 4, AcquiredAt: night(0), RenewedAt: now,
		ExpiresAt: now.Add(15 * time.Second), Left: 15 * time.Second,
	}
	expired := live
	expired.ExpiresAt, expired.Left = now.Add(-time.Hour), -time.Hour
	taken := live
	taken.Token = 5

	for _, test := range []struct {
		name  string
		runs  []schedule.Record
		lease leader.Lease
		want  Severity
		text  string // all of it must be in the line, part by part
	}{
		{
			"nothing on record",
			nil,
			leader.Lease{Job: "report"},
			Critical,
			"no slot is on record…nobody has ever led it",
		},
		{
			"done last night",
			[]schedule.Record{slot(0, schedule.StateDone)},
			expired, OK,
			"was done 6h50m0s ago by web-1…age=24600s;;90000;0",
		},
		{
			"done too long ago",
			[]schedule.Record{slot(2, schedule.StateDone)},
			live, Critical,
			"more than 25h…nothing is on record…web-1 has led it for 7h0m0s",
		},
		{
			"nobody alive",
			[]schedule.Record{slot(2, schedule.StateDone)},
			expired, Critical,
			"nothing is on record…nobody has led it for 1h0m0s",
		},
		{
			"failed since",
			[]schedule.Record{slot(0, schedule.StateFailed), slot(1, schedule.StateDone)},
			live, Critical,
			"slot 2026-03-10T02:00:00Z failed (why failed)",
		},
		{
			"never done",
			[]schedule.Record{slot(0, schedule.StateMissed), slot(1, schedule.StateAbandoned)},
			live, Critical,
			"none of the latest 2 slots was done…was missed…why missed",
		},
		{
			"running now",
			[]schedule.Record{slot(0, schedule.StateRunning), slot(1, schedule.StateDone)},
			live, Critical,
			"has been running for 7h0m0s",
		},
		{
			"requested",
			[]schedule.Record{slot(0, schedule.StateRequested), slot(1, schedule.StateDone)},
			live, Critical,
			"waits for the run that was requested",
		},
		{
			"cut off",
			[]schedule.Record{slot(0, schedule.StateRunning), slot(1, schedule.StateDone)},
			taken, Critical,
			"was cut off: the term of web-1 is over",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			checkVerdict(t, Slots(test.runs, test.lease, now, 25*time.Hour), test.want, test.text)
		})
	}

	// Within the time, what came after decides between OK and WARNING.
	for state, want := range map[schedule.State]Severity{
		schedule.StateFailed: Warning, schedule.StateMissed: Warning, schedule.StateAbandoned: Warning,
		schedule.StateRunning: OK, schedule.StateRequested: OK,
	} {
		runs := []schedule.Record{slot(0, state), slot(1, schedule.StateDone)}
		text := "slot 2026-03-09T02:00:00Z was done"
		if want == Warning {
			text += "…but slot 2026-03-10T02:00:00Z…why " + string(state)
		}
		checkVerdict(t, Slots(runs, live, now, 48*time.Hour), want, text)
	}
	runs := []schedule.Record{slot(0, schedule.StateRunning), slot(1, schedule.StateDone)}
	checkVerdict(t, Slots(runs, taken, now, 48*time.Hour), Warning, "cut off")

	// A failure is not hidden by a later slot that still runs.
	runs = []schedule.Record{
		slot(0, schedule.StateRunning), slot(1, schedule.StateFailed), slot(2, schedule.StateDone),
	}
	checkVerdict(t, Slots(runs, live, now, 72*time.Hour), Warning,
		"slot 2026-03-09T02:00:00Z failed (why failed), and 1 more came")

	// A second too late is too late.
	age := now.Sub(slot(0, schedule.StateDone).FinishedAt)
	runs = []schedule.Record{slot(0, schedule.StateDone)}
	checkVerdict(t, Slots(runs, live, now, age), OK, "")
	checkVerdict(t, Slots(runs, live, now, age-time.Second), Critical, "")
}

func checkVerdict(t *testing.T, got Verdict, want Severity, parts string) {
	t.Helper()
	line := got.Line()
	if got.Severity != want || !strings.HasPrefix(line, want.String()+": report: ") {
		t.Errorf("got %v, want %v: %s", got.Severity, want, line)
	}
	for part := range strings.SplitSeq(parts, "…") {
		if !strings.Contains(line, part) {
			t.Errorf("%q is not in %q", part, line)
		}
	}
	if strings.Contains(line, "\n") || strings.Count(line, "|") > 1 {
		t.Errorf("not one line with at most one bar: %q", line)
	}
}

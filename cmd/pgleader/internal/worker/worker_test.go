package worker

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

// The library refuses durations that do not fit.
func TestEveryTTLHasRoomForEveryStopWithin(t *testing.T) {
	t.Parallel()
	for _, ttl := range []time.Duration{leader.MinTTL, time.Second, 15 * time.Second, leader.MaxTTL} {
		for _, stop := range []time.Duration{0, 1, ttl / 5, LongestStop(ttl)} {
			newRig(t, Config{TTL: ttl, StopWithin: stop})
		}
	}
}

func TestResultSaysWhyTheCommandDidNotDoItsWork(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		result Result
		want   string
	}{
		{Result{}, ""},
		{Result{Code: 3}, "the command exited with status 3"},
		{Result{Code: 128}, "the command exited with status 128"},
		{Result{Code: 128 + 15}, "the command was ended by signal 15"},
		{Result{Code: 255}, "the command exited with status 255"},
		{Result{Code: 128 + 15, Lost: true}, "the lease was lost, and the command was ended"},
		{Result{Lost: true, Err: errors.New("not found")}, "not found"},
	} {
		got := ""
		if err := row.result.Failure(); err != nil {
			got = err.Error()
		}
		if got != row.want {
			t.Errorf("%+v: %q, want %q", row.result, got, row.want)
		}
	}
}

func TestEventsAreToldInTheWordsOfTheCommandLine(t *testing.T) {
	t.Parallel()
	cause := errors.New("leader: the cause")
	for _, row := range []struct {
		event leader.Event
		want  line
	}{
		{leader.Event{Kind: leader.EventElected, Token: 7}, line{text: "leading under token 7"}},
		{
			leader.Event{Kind: leader.EventLost, Token: 7, Err: cause},
			line{text: "lost the lease with token 7: the cause"},
		},
		{leader.Event{Kind: leader.EventResigned}, line{}},
		{
			leader.Event{Kind: leader.EventResigned, Err: cause},
			line{text: "could not release the lease, it expires within 15s: the cause", warn: true},
		},
		{
			leader.Event{Kind: leader.EventWaiting, Holder: "two\nlines", Token: 7},
			line{text: `waiting, "two\nlines" leads under token 7`},
		},
		{leader.Event{Kind: leader.EventSkipped, Holder: "web-1"}, line{}},
		{
			leader.Event{Kind: leader.EventRenewFailed, Err: cause},
			line{text: "the cause, trying again", warn: true, again: true},
		},
		{
			leader.Event{Kind: leader.EventLookFailed, Err: cause},
			line{text: "the cause, trying again", warn: true, again: true},
		},
		{
			leader.Event{Kind: leader.EventClaimFailed, Err: cause},
			line{text: "the cause, trying again", warn: true, again: true},
		},
		{leader.Event{Kind: leader.EventResignFailed, Err: cause}, line{}},
		{
			leader.Event{Kind: leader.EventClockSetBack, Holder: "web-1", Err: cause},
			line{text: "freed the lease of web-1: the cause", warn: true},
		},
	} {
		if got := (Config{TTL: 15 * time.Second}).describe(row.event); got != row.want {
			t.Errorf("%s: %+v, want %+v", row.event.Kind, got, row.want)
		}
	}
}

func TestEventsOfSlotsAreToldInTheWordsOfTheCommandLine(t *testing.T) {
	t.Parallel()
	slot := time.Date(2026, 3, 10, 2, 0, 0, 0, time.UTC)
	cause := errors.New("schedule: the cause")
	for _, row := range []struct {
		event schedule.Event
		want  line
	}{
		{
			schedule.Event{Kind: schedule.EventStarted, Slot: slot},
			line{text: "slot 2026-03-10T02:00:00Z started"},
		},
		{
			schedule.Event{Kind: schedule.EventFinished, Slot: slot, State: schedule.StateDone},
			line{text: "slot 2026-03-10T02:00:00Z done"},
		},
		{
			schedule.Event{
				Kind: schedule.EventFinished, Slot: slot, State: schedule.StateFailed, Err: cause,
			},
			line{text: "slot 2026-03-10T02:00:00Z failed: the cause", warn: true},
		},
		{
			schedule.Event{Kind: schedule.EventFinished, Slot: slot, Err: cause},
			line{text: "slot 2026-03-10T02:00:00Z ended, its record is not known: the cause", warn: true},
		},
		{
			schedule.Event{Kind: schedule.EventGivenBack, Slot: slot},
			line{text: "slot 2026-03-10T02:00:00Z given back, its command was not started"},
		},
		{
			schedule.Event{Kind: schedule.EventMissed, Slot: slot, Count: 2, Reason: "nobody came"},
			line{text: "slots up to 2026-03-10T02:00:00Z: 2 missed: nobody came", warn: true},
		},
		{
			schedule.Event{Kind: schedule.EventRetry, Err: cause},
			line{text: "the cause, trying again", warn: true, again: true},
		},
	} {
		if got := describeSlot(row.event); got != row.want {
			t.Errorf("%s: %+v, want %+v", row.event.Kind, got, row.want)
		}
	}
}

func TestEventIsHandedOnAfterItWasTold(t *testing.T) {
	t.Parallel()
	var r *rig
	handed := 0
	r = newRig(t, Config{OnEvent: func(leader.Event) {
		if handed++; !strings.Contains(r.said.String(), "pgleader: report: leading under token 7\n") {
			t.Errorf("told so far: %q", r.said)
		}
	}})
	r.tell(leader.Event{Kind: leader.EventElected, Job: "report", Token: 7})
	if handed != 1 {
		t.Errorf("handed on %d times", handed)
	}
	r.tell(leader.Event{Kind: leader.EventLookFailed, Err: leader.ErrReadOnly})
	if !strings.HasSuffix(r.said.String(), "target_session_attrs=read-write\n") {
		t.Errorf("it does not say what to do: %q", r.said)
	}
}

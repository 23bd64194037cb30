package worker

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pgleader/pgleader/leader"
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
	slot := time.Date(2026, 3, 10, 2, 0, 0, 0, time.UTC)
	cause := errors.New("leader: the cause")
	for _, row := range []struct {
		event leader.Event
		want  line
	}{
		{leader.Event{Kind: leader.Elected, Token: 7}, line{text: "leading under token 7"}},
		{
			leader.Event{Kind: leader.Lost, Token: 7, Err: cause},
			line{text: "lost the lease with token 7: the cause"},
		},
		{leader.Event{Kind: leader.Resigned}, line{}},
		{
			leader.Event{Kind: leader.Resigned, Err: cause},
			line{text: "could not release the lease, it expires within 15s: the cause", warn: true},
		},
		{
			leader.Event{Kind: leader.Waiting, Holder: "two\nlines", Token: 7},
			line{text: `waiting, "two\nlines" leads under token 7`},
		},
		{leader.Event{Kind: leader.Skipped, Holder: "web-1"}, line{}},
		{
			leader.Event{Kind: leader.RenewFailed, Err: cause},
			line{text: "the cause, trying again", warn: true, again: true},
		},
		{
			leader.Event{Kind: leader.LookFailed, Err: cause},
			line{text: "the cause, trying again", warn: true, again: true},
		},
		{
			leader.Event{Kind: leader.ClaimFailed, Err: cause},
			line{text: "the cause, trying again", warn: true, again: true},
		},
		{leader.Event{Kind: leader.ResignFailed, Err: cause}, line{}},
		{
			leader.Event{Kind: leader.ClockSetBack, Holder: "web-1", Err: cause},
			line{text: "freed the lease of web-1: the cause", warn: true},
		},
		{
			leader.Event{Kind: leader.SlotStarted, Slot: slot},
			line{text: "slot 2026-03-10T02:00:00Z started"},
		},
		{
			leader.Event{Kind: leader.SlotFinished, Slot: slot, State: leader.SlotDone},
			line{text: "slot 2026-03-10T02:00:00Z done"},
		},
		{
			leader.Event{Kind: leader.SlotFinished, Slot: slot, State: leader.SlotFailed, Err: cause},
			line{text: "slot 2026-03-10T02:00:00Z failed: the cause", warn: true},
		},
		{
			leader.Event{Kind: leader.SlotsMissed, Slot: slot, Err: cause},
			line{text: "slots up to 2026-03-10T02:00:00Z: the cause", warn: true},
		},
		{
			leader.Event{Kind: leader.SlotRetry, Err: cause},
			line{text: "the cause, trying again", warn: true, again: true},
		},
	} {
		if got := (Config{TTL: 15 * time.Second}).describe(row.event); got != row.want {
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
	r.tell(leader.Event{Kind: leader.Elected, Job: "report", Token: 7})
	if handed != 1 {
		t.Errorf("handed on %d times", handed)
	}
	r.tell(leader.Event{Kind: leader.LookFailed, Err: leader.ErrReadOnly})
	if !strings.HasSuffix(r.said.String(), "target_session_attrs=read-write\n") {
		t.Errorf("it does not say what to do: %q", r.said)
	}
}

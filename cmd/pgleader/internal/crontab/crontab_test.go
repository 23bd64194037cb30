package crontab

import (
	"context"
	"testing"

	"github.com/pgleader/pgleader/leader"
)

// newLoop is a loop of the table's whose context tells whether it was stopped.
func newLoop(t *testing.T) (context.Context, *loop) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	return ctx, &loop{stop: stop}
}

func TestChangedJobIsStoppedAfterItsCommandIsOnRecord(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]leader.EventKind{
		"recorded": leader.SlotFinished, "lost": leader.Lost,
	} {
		table := &table{busy: make(map[string]*loop)}
		ctx, l := newLoop(t)
		if !table.enter("report", l) {
			t.Fatal("it may not start its command")
		}
		table.leave("report", l)
		table.observe(leader.Event{Kind: leader.SlotStarted, Job: "report"})
		table.observe(leader.Event{Kind: kind, Job: "mails"})
		if ctx.Err() != nil {
			t.Fatalf("%s: stopped while its command runs", name)
		}
		if table.observe(leader.Event{Kind: kind, Job: "report"}); ctx.Err() == nil {
			t.Errorf("%s: it goes on", name)
		}
	}
}

func TestIdleJobThatChangesIsStoppedAtOnceAndStartsNothing(t *testing.T) {
	t.Parallel()
	table := &table{busy: make(map[string]*loop)}
	ctx, l := newLoop(t)
	if table.leave("report", l); ctx.Err() == nil {
		t.Error("it goes on")
	}
	if table.enter("report", l) {
		t.Error("it may start its command")
	}
}

func TestJobThatGoesOnOutlivesItsCommands(t *testing.T) {
	t.Parallel()
	table := &table{busy: make(map[string]*loop)}
	ctx, l := newLoop(t)
	for range 3 {
		if !table.enter("report", l) {
			t.Fatal("it may not start its command")
		}
		table.observe(leader.Event{Kind: leader.SlotFinished, Job: "report"})
	}
	if ctx.Err() != nil {
		t.Error("it was stopped")
	}
}

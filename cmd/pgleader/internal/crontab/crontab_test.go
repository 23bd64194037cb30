package crontab

import (
	"context"
	"testing"

	"github.com/pgleader/pgleader/schedule"
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
	table := &table{busy: make(map[string]*loop)}
	ctx, l := newLoop(t)
	if !table.enter("report", l) {
		t.Fatal("it may not start its command")
	}
	table.leave("report", l)
	table.observe(schedule.Event{Kind: schedule.EventStarted, Job: "report"})
	table.observe(schedule.Event{Kind: schedule.EventFinished, Job: "mails"})
	if ctx.Err() != nil {
		t.Fatal("stopped while its command runs")
	}
	table.observe(schedule.Event{Kind: schedule.EventFinished, Job: "report"})
	if ctx.Err() == nil {
		t.Error("it goes on")
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
		table.observe(schedule.Event{Kind: schedule.EventFinished, Job: "report"})
	}
	if ctx.Err() != nil {
		t.Error("it was stopped")
	}
}

package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/internal/pgfake"
	"github.com/pgleader/pgleader/schedule"
)

// A diary notes which slots were run, as their works saw it.
type diary struct {
	table *pgfake.Table
	mu    sync.Mutex
	runs  []slotRun
}

// A slotRun is one run of one slot.
type slotRun struct {
	slot    time.Time
	attempt int
	began   time.Time // by the database's clock
	holder  string
}

type slotFunc = func(context.Context, *schedule.Slot) error

// work returns a work that notes its run, and then takes some time unless its context ends.
func (d *diary) work(takes time.Duration) slotFunc {
	return func(ctx context.Context, s *schedule.Slot) error {
		d.note(s)
		return sleep(ctx, takes)
	}
}

func (d *diary) note(s *schedule.Slot) {
	now := d.table.Clock()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.runs = append(d.runs, slotRun{s.Time(), s.Attempt(), now, d.table.Row(s.Term().Job()).Holder})
}

func (d *diary) all() []slotRun {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.runs)
}

// returning is a work that does nothing, and returns err.
func returning(err error) slotFunc {
	return func(context.Context, *schedule.Slot) error { return err }
}

var errBroken = errors.New("it went wrong")

// wantOutcomes fails the test unless the slot table says what is wanted, a line for a slot.
func wantOutcomes(t *testing.T, tb *pgfake.Table, want ...string) {
	t.Helper()
	var got []string
	for _, row := range tb.Slots() {
		got = append(got, fmt.Sprintf("%s %s %d", row.Slot.Format("15:04"), row.State, row.Attempt))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the slots are %q, want %q", got, want)
	}
}

// putSlot writes the row of a slot that was run in the past, under a term before the first.
func putSlot(tb *pgfake.Table, slot time.Time, state schedule.State, attempt int32) {
	tb.PutSlot(db.LeaderSlot{
		JobName: "job", Slot: slot, State: string(state), Attempt: attempt, Token: 0, Holder: "gone",
	})
}

// midnight is when a bubble begins.
func midnight() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) }

// until waits for a time of the bubble's first day.
func until(timeOfDay time.Duration) {
	time.Sleep(time.Until(midnight().Add(timeOfDay)))
}

// daily comes once a day, at a time of day in UTC.
type daily time.Duration

func (d daily) Next(after time.Time) time.Time {
	next := after.Truncate(24 * time.Hour).Add(time.Duration(d))
	if !next.After(after) {
		next = next.Add(24 * time.Hour)
	}
	return next
}

// every comes at each multiple of d.
type every time.Duration

func (d every) Next(after time.Time) time.Time {
	return after.Truncate(time.Duration(d)).Add(time.Duration(d))
}

// hourly comes on each full hour; a bubble's time begins on one.
const hourly = every(time.Hour)

// A roll is a schedule of some instants, in order.
type roll []time.Time

func (r roll) Next(after time.Time) time.Time {
	for _, at := range r {
		if at.After(after) {
			return at
		}
	}
	return time.Time{}
}

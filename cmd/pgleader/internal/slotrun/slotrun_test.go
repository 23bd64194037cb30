package slotrun

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/timetable"
	"github.com/pgleader/pgleader/cmd/pgleader/internal/words"
	"github.com/pgleader/pgleader/cmd/pgleader/internal/worker"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

// A row is an answer of the library's that had nothing to run.
func TestAnswerDecidesTheNextStep(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 10, 2, 0, 0, 0, time.UTC)
	nightly, err := timetable.Parse("0 2 * * *", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	rival := leader.Lease{Job: "report", Holder: "web-1", Token: 7, Left: time.Second}
	dismissed := rival
	dismissed.Holder = "operator:ada@ops:x:dismissed"
	for name, row := range map[string]struct {
		due     schedule.Due
		early   time.Duration
		standBy bool
		want    step
	}{
		"an operator keeps the job from everybody": {
			due: schedule.Due{Leader: dismissed, Slot: now},
			want: step{
				say:   "operator:ada@ops:x:dismissed took the job away, it is free in 1s, waiting",
				again: true, wait: time.Second + time.Millisecond,
			},
		},
		"another host leads": {
			due: schedule.Due{Leader: rival, Slot: now},
			want: step{say: "nothing to do for slot 2026-03-10T02:00:00Z, " +
				"web-1 leads the job under token 7"},
		},
		"another host leads, and this one stands by": {
			due:     schedule.Due{Leader: rival, Slot: now},
			standBy: true,
			want:    step{standByFor: now},
		},
		"the slot has been decided": {
			due:   schedule.Due{Slot: now.Add(-time.Hour), Now: now, Next: now.Add(23 * time.Hour)},
			early: time.Minute,
			want:  step{tell: true},
		},
		"the host's clock is ahead": {
			due:   schedule.Due{Slot: now.AddDate(0, 0, -1), Now: now.Add(-30 * time.Second), Next: now},
			early: time.Minute,
			want: step{
				say:   "slot 2026-03-10T02:00:00Z comes in 30s by the database's clock, waiting",
				again: true, wait: 30 * time.Second,
			},
		},
		"the host's clock is ahead, and nobody is to wait": {
			due:  schedule.Due{Slot: now.AddDate(0, 0, -1), Now: now.Add(-30 * time.Second), Next: now},
			want: step{tell: true},
		},
		"the slot that has come is the nearer one": {
			due: schedule.Due{
				Slot: now.Add(-10 * time.Second), Now: now, Next: now.Add(50 * time.Second),
			},
			early: time.Minute,
			want:  step{tell: true},
		},
		"a job begins too late": {
			due: schedule.Due{Now: now.Add(3 * time.Hour), Next: now.AddDate(0, 0, 1)},
			want: step{say: "slot 2026-03-10T02:00:00Z came 3h0m0s ago, and --grace is 1ms: " +
				"too late to begin with it; the next one is 2026-03-11T02:00:00Z"},
		},
	} {
		policy := timetable.DefaultPolicy()
		policy.Grace = time.Millisecond
		r := &run{Call: Call{
			Schedule: nightly, Policy: policy, Early: row.early, StandBy: row.standBy,
		}}
		if got := r.next(row.due); got != row.want {
			t.Errorf("%s:\ngot  %+v\nwant %+v", name, got, row.want)
		}
	}
	rare, err := timetable.Parse("0 2 1 6 *", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	r := &run{Call: Call{Schedule: rare}}
	got := r.next(schedule.Due{Now: now, Next: rare.Next(now)})
	if want := (step{say: "no slot is due, the next one is 2026-06-01T02:00:00Z"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestRecordSaysWhatBecameOfASlot(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 10, 2, 0, 0, 123_456_000, time.UTC)
	runs := []schedule.Record{
		{Slot: at.Add(time.Hour), State: schedule.StateDone, Holder: "web-2"},
		{Slot: at, State: schedule.StateFailed, Holder: "web\n1", Error: "exit status 1"},
	}
	const want = `nothing to do, slot 2026-03-10T02:00:00.123Z is on record as failed, by "web\n1"` +
		`: exit status 1`
	if got := fate(runs, at.Add(-999)); got != want { // the table has microseconds
		t.Errorf("got %s", got)
	}
	if got := fate(nil, at); got != "nothing to do for slot 2026-03-10T02:00:00.123Z" {
		t.Errorf("got %s", got)
	}
}

func TestOutageIsWaitedForAsLongAsAsked(t *testing.T) {
	t.Parallel()
	const outage = 10 * time.Second
	for _, row := range []struct {
		retryFor time.Duration
		tries    int
		ends     bool // in success
		took     time.Duration
	}{
		{0, 1, false, 0},
		{100 * time.Millisecond, 2, false, 100 * time.Millisecond},
		{9500 * time.Millisecond, 11, false, 9500 * time.Millisecond},
		{time.Minute, 11, true, outage},
	} {
		synctest.Test(t, func(t *testing.T) {
			var said bytes.Buffer
			r := &run{
				Call:  Call{RetryFor: row.retryFor, Job: worker.Job{Name: "report"}},
				voice: &words.Voice{Out: &said},
			}
			start, tries := time.Now(), 0
			err := r.patiently(t.Context(), func() error {
				if tries++; time.Since(start) < outage {
					return leader.ErrReadOnly
				}
				return nil
			})
			took := time.Since(start)
			if tries != row.tries || (err == nil) != row.ends || took != row.took {
				t.Errorf("%v: %d tries in %v, %v; want %+v", row.retryFor, tries, took, err, row)
			}
			if got := strings.Count(said.String(), "trying again for"); got != min(1, tries-1) {
				t.Errorf("%v: said %d times that it tries again", row.retryFor, got)
			}
		})
	}
}

func TestNothingIsTriedAgainInVain(t *testing.T) {
	t.Parallel()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, row := range map[string]struct {
		ctx context.Context
		err error
		ran bool
	}{
		"it does not pass":    {t.Context(), errors.New("no such schedule"), false},
		"the command has run": {t.Context(), leader.ErrReadOnly, true},
		"asked to end":        {gone, leader.ErrReadOnly, false},
	} {
		tries := 0
		r := &run{Call: Call{RetryFor: time.Hour}, voice: &words.Voice{Out: new(bytes.Buffer)}}
		r.ran = row.ran
		err := r.patiently(row.ctx, func() error {
			tries++
			return row.err
		})
		if tries != 1 || !errors.Is(err, row.err) {
			t.Errorf("%s: %d tries, %v", name, tries, err)
		}
	}
}

func TestCallThatIsAskedToEndBeforeItBeginsHasRunNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := &run{Worker: &worker.Worker{}}
	if err := r.command(ctx, new(schedule.Slot)); !errors.Is(err, context.Canceled) || r.ran {
		t.Errorf("%v, ran %v, want the context's error, and that nothing ran", err, r.ran)
	}
}

package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// A slotStory is one history: a schedule on three processes, and what befalls them.
type slotStory struct {
	interval time.Duration
	policy   Policy
	works    []slotWork // of the n-th run, around again
	strokes  []stroke
}

// A slotWork is what one run of a slot does.
type slotWork struct {
	takes     time.Duration
	fails     bool
	completes bool // through Complete, and else by returning nil
	deaf      bool // it does not listen to its context
}

// A stroke is one thing that befalls a process, or with suspend all of them.
type stroke struct {
	after   time.Duration
	process int
	kind    string
	lasts   time.Duration
}

func drawStory(t *rapid.T) slotStory {
	duration := func(label string, from, to time.Duration) time.Duration {
		return time.Duration(rapid.Int64Range(int64(from/time.Millisecond), int64(to/time.Millisecond)).Draw(t, label)) * time.Millisecond
	}
	s := slotStory{
		interval: duration("interval", 500*time.Millisecond, 20*time.Second),
		policy: Policy{
			Grace:        duration("grace", time.Second, time.Minute),
			CatchUp:      rapid.SampledFrom([]CatchUp{CatchUpLatest, CatchUpAll, CatchUpSkip}).Draw(t, "catch up"),
			Attempts:     rapid.IntRange(1, 4).Draw(t, "attempts"),
			RepeatFailed: rapid.Bool().Draw(t, "repeat failed"),
		},
	}
	for range rapid.IntRange(1, 5).Draw(t, "works") {
		s.works = append(s.works, slotWork{
			takes:     duration("takes", 0, 15*time.Second),
			fails:     rapid.IntRange(0, 4).Draw(t, "fails") == 0,
			completes: rapid.Bool().Draw(t, "completes"),
			deaf:      rapid.IntRange(0, 4).Draw(t, "deaf") == 0,
		})
	}
	for range rapid.IntRange(0, 8).Draw(t, "strokes") {
		s.strokes = append(s.strokes, stroke{
			after:   duration("after", 0, 15*time.Second),
			process: rapid.IntRange(0, 2).Draw(t, "process"),
			kind:    rapid.SampledFrom([]string{"crash", "shutdown", "cut off", "slow", "lost answers", "wall clock", "suspend"}).Draw(t, "kind"),
			lasts:   duration("lasts", 100*time.Millisecond, 10*time.Second),
		})
	}
	return s
}

func TestEverySlotIsDecidedOnceWhateverBefallsTheProcesses(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		story := drawStory(rt)
		var failure error
		synctest.Test(t, func(t *testing.T) { failure = play(t, story) })
		if failure != nil {
			rt.Fatal(failure)
		}
	})
}

// A record is what the works of all processes did, written down outside of the table.
type record struct {
	hired    []*worker
	mu       sync.Mutex
	running  map[time.Time]int // works of a slot whose context is alive
	runs     map[time.Time]int
	effects  map[time.Time]int // commits of Complete
	done     map[time.Time]bool
	failed   map[time.Time]bool // their work returned an error while the term was live
	woke     time.Time          // when the machines were last suspended
	ended    time.Time          // when the processes were shut down
	failures []error
}

func (r *record) fail(format string, args ...any) {
	r.failures = append(r.failures, fmt.Errorf(format, args...))
}

// A worker is a process of the story, which may die and be started again.
type worker struct {
	*process
	dead  bool         // under the table's mutex
	ahead atomic.Int64 // of the wall clock to the monotonic one
	stop  context.CancelFunc
	gone  chan struct{}
}

func play(t *testing.T, story slotStory) error {
	tb := newTable()
	rec := &record{
		running: make(map[time.Time]int), runs: make(map[time.Time]int),
		effects: make(map[time.Time]int), done: make(map[time.Time]bool),
		failed: make(map[time.Time]bool),
	}
	workers := make([]*worker, 3)
	for i := range workers {
		workers[i] = hire(t, tb, story, rec)
	}
	for _, s := range story.strokes {
		time.Sleep(s.after)
		befall(t, tb, story, rec, workers, s)
	}
	time.Sleep(story.interval + 2*time.Minute) // whatever was cut off is run again, and whatever is late is decided
	rec.mu.Lock()
	rec.ended = tb.now()
	rec.mu.Unlock()
	for _, w := range workers {
		w.stop()
	}
	for _, w := range workers {
		w.path.unhang()
		<-w.gone
	}
	return judge(tb, story, rec)
}

func hire(t *testing.T, tb *table, story slotStory, rec *record) *worker {
	ctx, stop := context.WithCancel(context.Background())
	w := &worker{process: newProcess(t, tb, Config{TTL: 2 * time.Second}), stop: stop, gone: make(chan struct{})}
	rec.hired = append(rec.hired, w)
	w.wall = func() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())).Round(0) }
	go func() {
		defer close(w.gone)
		err := w.RunSchedule(ctx, "job", every(story.interval), story.policy, func(ctx context.Context, s *Slot) error {
			return w.work(ctx, s, tb, story, rec)
		})
		if !errors.Is(err, context.Canceled) {
			rec.mu.Lock()
			defer rec.mu.Unlock()
			rec.fail("RunSchedule: %w", err)
		}
	}()
	return w
}

func (w *worker) work(ctx context.Context, s *Slot, tb *table, story slotStory, rec *record) error {
	rec.mu.Lock()
	at := s.Time()
	if rec.done[at] {
		rec.fail("slot %v is run again after it was done", at)
	}
	if rec.failed[at] && !story.policy.RepeatFailed {
		rec.fail("slot %v is run again after it failed", at)
	}
	rec.runs[at]++
	rec.running[at]++
	// A suspended machine learns of it only after waking: until then two may work, as docs/guarantees.md says.
	if rec.running[at] > 1 && time.Since(rec.woke) > w.wallCheck {
		rec.fail("slot %v is run twice at once", at)
	}
	n := 0
	for _, runs := range rec.runs {
		n += runs
	}
	rec.mu.Unlock()
	plan := story.works[n%len(story.works)]

	alive := sync.OnceFunc(func() {
		rec.mu.Lock()
		defer rec.mu.Unlock()
		rec.running[at]--
	})
	defer alive()
	defer context.AfterFunc(s.term.ctx, alive)()
	if plan.deaf {
		time.Sleep(plan.takes)
	} else if err := sleep(ctx, plan.takes); err != nil {
		return err
	}
	switch {
	case plan.fails:
		if len(story.strokes) == 0 { // otherwise something may befall it before the failure is on record
			rec.mu.Lock()
			defer rec.mu.Unlock()
			rec.failed[at] = true
		}
		return errors.New("it went wrong")
	case plan.completes:
		return w.complete(s, tb, rec)
	}
	return nil
}

// complete is what Complete and a commit do, to the table in memory: the effect and the state change together, under the guard.
func (w *worker) complete(s *Slot, tb *table, rec *record) error {
	s.completing.Store(true)
	tb.mu.Lock()
	defer tb.mu.Unlock()
	row := tb.slots[slotKey{s.term.job, s.at}]
	lease := tb.rows[s.term.job]
	if w.dead || s.term.check() != nil || lease.Token != s.term.token || row.State != string(SlotRunning) || row.Token != s.term.token {
		return ErrLost
	}
	row.State = string(SlotDone)
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.effects[s.at]++
	rec.done[s.at] = true
	return nil
}

func befall(t *testing.T, tb *table, story slotStory, rec *record, workers []*worker, s stroke) {
	w := workers[s.process]
	heal := func() { time.AfterFunc(s.lasts, func() { w.path.suffer(nil) }) }
	switch s.kind {
	case "crash": // nothing of it reaches the server any more, and another is started later
		tb.mu.Lock()
		w.dead = true
		tb.mu.Unlock()
		w.path.suffer(always(trouble{hangs: true}))
		w.stop()
		time.Sleep(s.lasts)
		old := w
		t.Cleanup(func() { old.path.unhang() })
		workers[s.process] = hire(t, tb, story, rec)
	case "shutdown":
		w.stop()
		time.Sleep(s.lasts)
		workers[s.process] = hire(t, tb, story, rec)
	case "cut off":
		w.path.suffer(always(trouble{fails: errReset}))
		heal()
	case "slow":
		w.path.suffer(always(trouble{late: 300 * time.Millisecond, slow: 300 * time.Millisecond}))
		heal()
	case "lost answers":
		w.path.suffer(func(s statement) trouble {
			if s.nth%2 == 0 {
				return trouble{loses: errReset}
			}
			return trouble{}
		})
		heal()
	case "wall clock":
		w.ahead.Add(int64(s.lasts))
	case "suspend":
		tb.mu.Lock()
		tb.ahead += s.lasts
		tb.mu.Unlock()
		rec.mu.Lock()
		rec.woke = time.Now()
		rec.mu.Unlock()
		for _, w := range rec.hired { // also those that are still on their way out
			w.ahead.Add(int64(s.lasts))
		}
	}
}

func judge(tb *table, story slotStory, rec *record) error {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rows := tb.dump()
	if len(rows) == 0 {
		rec.fail("no slot was decided")
	}
	for i, row := range rows {
		if i > 0 && row.Slot.Sub(rows[i-1].Slot) != story.interval {
			rec.fail("between the slots %v and %v there are some without a record", rows[i-1].Slot, row.Slot)
		}
		switch {
		case row.State == string(SlotRunning):
			rec.fail("slot %v is left running: %+v", row.Slot, row)
		case row.State == string(SlotDone) && row.Error != "", row.State != string(SlotDone) && row.Error == "":
			rec.fail("slot %v is %s with the error %q", row.Slot, row.State, row.Error)
		case row.State == string(SlotMissed) && (row.Attempt != 0 || rec.runs[row.Slot] != 0):
			rec.fail("slot %v is missed, and was run %d times", row.Slot, rec.runs[row.Slot])
		case int(row.Attempt) > story.policy.Attempts || rec.runs[row.Slot] > int(row.Attempt):
			rec.fail("slot %v was run %d times in %d attempts, at most %d", row.Slot, rec.runs[row.Slot], row.Attempt, story.policy.Attempts)
		case row.State == string(SlotDone) != rec.done[row.Slot] && rec.effects[row.Slot] > 0, rec.effects[row.Slot] > 1:
			rec.fail("slot %v is %s with %d effects", row.Slot, row.State, rec.effects[row.Slot])
		case row.State == string(SlotAbandoned) && int(row.Attempt) < story.policy.Attempts &&
			story.policy.CatchUp == CatchUpAll && row.FinishedAt.Time.Before(rec.ended):
			rec.fail("slot %v was cut off and not run again", row.Slot)
		}
	}
	return errors.Join(rec.failures...)
}

// every comes at each multiple of d.
type every time.Duration

func (d every) Next(after time.Time) time.Time {
	return after.Truncate(time.Duration(d)).Add(time.Duration(d))
}

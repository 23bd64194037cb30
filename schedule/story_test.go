package schedule_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pgleader/pgleader/internal/pgfake"
	"github.com/pgleader/pgleader/schedule"
)

// A slotStory is one history: a schedule on three processes, and what befalls them.
type slotStory struct {
	interval time.Duration
	policy   schedule.Policy
	works    []slotWork // of the n-th run, around again
	faults   []fault
}

// A slotWork is what one run of a slot does.
type slotWork struct {
	takes time.Duration
	deaf  bool // it does not listen to its context
	ends  string
}

// How a work ends, unless its context ends it.
const (
	returns   = "returns nil"
	fails     = "returns an error"
	completes = "completes the slot in a transaction, and commits"
	rollsBack = "completes the slot in a transaction, rolls back, and returns nil"
)

// A fault is one thing that befalls a process, or with suspend all of them.
type fault struct {
	after   time.Duration
	process int // 0 to 2, or -1 for whichever leads
	kind    string
	lasts   time.Duration
}

func drawStory(t *rapid.T) slotStory {
	duration := func(label string, from, to time.Duration) time.Duration {
		ms := rapid.Int64Range(from.Milliseconds(), to.Milliseconds()).Draw(t, label)
		return time.Duration(ms) * time.Millisecond
	}
	catchUps := []schedule.CatchUp{schedule.CatchUpLatest, schedule.CatchUpAll, schedule.CatchUpSkip}
	s := slotStory{
		interval: duration("interval", 500*time.Millisecond, 20*time.Second),
		policy: schedule.Policy{
			Grace:        duration("grace", time.Second, time.Minute),
			CatchUp:      rapid.SampledFrom(catchUps).Draw(t, "catch up"),
			Attempts:     rapid.IntRange(1, 4).Draw(t, "attempts"),
			RepeatFailed: rapid.Bool().Draw(t, "repeat failed"),
		},
	}
	ends := []string{returns, returns, completes, completes, completes, fails, rollsBack}
	for range rapid.IntRange(1, 5).Draw(t, "works") {
		s.works = append(s.works, slotWork{
			takes: duration("takes", 0, 15*time.Second),
			deaf:  rapid.IntRange(0, 4).Draw(t, "deaf") == 0,
			ends:  rapid.SampledFrom(ends).Draw(t, "ends"),
		})
	}
	kinds := []string{
		"crash", "shutdown", "cut off", "slow", "lost answers", "late", "wall clock", "suspend",
	}
	for range rapid.IntRange(0, 8).Draw(t, "faults") {
		s.faults = append(s.faults, fault{
			after:   duration("after", 0, 15*time.Second),
			process: rapid.SampledFrom([]int{-1, -1, -1, 0, 1, 2}).Draw(t, "process"),
			kind:    rapid.SampledFrom(kinds).Draw(t, "kind"),
			lasts:   duration("lasts", 100*time.Millisecond, 10*time.Second),
		})
	}
	return s
}

// inject has the fault happen, and returns before it is over unless a process is started again.
func inject(t *testing.T, f fault, seen *witness, workers []*worker) {
	victim := f.process
	if victim < 0 {
		leads := seen.table.Row("job").Holder
		leading := func(w *worker) bool { return w.Holder() == leads }
		victim = max(0, slices.IndexFunc(workers, leading))
	}
	w := workers[victim]
	switch f.kind {
	case "crash": // nothing of it reaches the server any more, and another is started later
		w.dead.Store(true)
		w.crash()
		w.stop()
		time.Sleep(f.lasts)
		t.Cleanup(func() { w.path.Unhang() })
		workers[victim] = hire(t, seen)
	case "shutdown":
		w.stop()
		time.Sleep(f.lasts)
		workers[victim] = hire(t, seen)
	case "wall clock":
		w.ahead.Add(int64(f.lasts))
	case "suspend":
		seen.suspend(f.lasts)
	default:
		w.path.Suffer(f.trouble)
		time.AfterFunc(f.lasts, func() {
			if !w.dead.Load() {
				w.path.Suffer(nil)
			}
		})
	}
}

// trouble is what a fault of the network does to a statement.
func (f fault) trouble(s pgfake.Statement) (trouble pgfake.Trouble) {
	switch f.kind {
	case "cut off":
		trouble.Fails = pgfake.ErrReset
	case "slow":
		trouble.Late, trouble.Slow = 300*time.Millisecond, 300*time.Millisecond
	case "lost answers":
		if s.Nth%2 == 0 {
			trouble.Loses = pgfake.ErrReset
		}
	case "late": // what is sent arrives once more, after its own retry if it has one
		trouble.Again = f.lasts / 2
		if s.Nth%2 == 0 {
			trouble.Loses = pgfake.ErrReset
		}
	}
	return trouble
}

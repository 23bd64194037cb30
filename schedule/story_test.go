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
	strokes  []stroke
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

// A stroke is one thing that befalls a process, or with suspend all of them.
type stroke struct {
	after   time.Duration
	process int // 0 to 2, or -1 for whichever leads
	kind    string
	lasts   time.Duration
}

func drawStory(t *rapid.T) slotStory {
	duration := func(label string, from, to time.Duration) time.Duration {
		return time.Duration(rapid.Int64Range(from.Milliseconds(), to.Milliseconds()).Draw(t, label)) * time.Millisecond
	}
	s := slotStory{
		interval: duration("interval", 500*time.Millisecond, 20*time.Second),
		policy: schedule.Policy{
			Grace:        duration("grace", time.Second, time.Minute),
			CatchUp:      rapid.SampledFrom([]schedule.CatchUp{schedule.CatchUpLatest, schedule.CatchUpAll, schedule.CatchUpSkip}).Draw(t, "catch up"),
			Attempts:     rapid.IntRange(1, 4).Draw(t, "attempts"),
			RepeatFailed: rapid.Bool().Draw(t, "repeat failed"),
		},
	}
	for range rapid.IntRange(1, 5).Draw(t, "works") {
		s.works = append(s.works, slotWork{
			takes: duration("takes", 0, 15*time.Second),
			deaf:  rapid.IntRange(0, 4).Draw(t, "deaf") == 0,
			ends:  rapid.SampledFrom([]string{returns, returns, completes, completes, completes, fails, rollsBack}).Draw(t, "ends"),
		})
	}
	kinds := []string{"crash", "shutdown", "cut off", "slow", "lost answers", "late", "wall clock", "suspend"}
	for range rapid.IntRange(0, 8).Draw(t, "strokes") {
		s.strokes = append(s.strokes, stroke{
			after:   duration("after", 0, 15*time.Second),
			process: rapid.SampledFrom([]int{-1, -1, -1, 0, 1, 2}).Draw(t, "process"),
			kind:    rapid.SampledFrom(kinds).Draw(t, "kind"),
			lasts:   duration("lasts", 100*time.Millisecond, 10*time.Second),
		})
	}
	return s
}

func befall(
	t *testing.T, tb *pgfake.Table, story slotStory, rec *record, workers []*worker, s stroke,
) {
	victim := s.process
	if victim < 0 {
		leads := tb.Row("job").Holder
		victim = max(0, slices.IndexFunc(workers, func(w *worker) bool { return w.Holder() == leads }))
	}
	w := workers[victim]
	heal := func() {
		time.AfterFunc(s.lasts, func() {
			if !w.dead.Load() {
				w.path.Suffer(nil)
			}
		})
	}
	switch s.kind {
	case "crash": // nothing of it reaches the server any more, and another is started later
		w.dead.Store(true)
		w.path.Suffer(pgfake.Always(pgfake.Trouble{Hangs: true}))
		w.path.Disconnect()
		w.stop()
		time.Sleep(s.lasts)
		t.Cleanup(func() { w.path.Unhang() })
		workers[victim] = hire(t, tb, story, rec)
	case "shutdown":
		w.stop()
		time.Sleep(s.lasts)
		workers[victim] = hire(t, tb, story, rec)
	case "cut off":
		w.path.Suffer(pgfake.Always(pgfake.Trouble{Fails: pgfake.ErrReset}))
		heal()
	case "slow":
		slow := pgfake.Trouble{Late: 300 * time.Millisecond, Slow: 300 * time.Millisecond}
		w.path.Suffer(pgfake.Always(slow))
		heal()
	case "lost answers":
		w.path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
			if s.Nth%2 == 0 {
				return pgfake.Trouble{Loses: pgfake.ErrReset}
			}
			return pgfake.Trouble{}
		})
		heal()
	case "late": // what is sent arrives once more, after its own retry if it has one
		w.path.Suffer(func(st pgfake.Statement) pgfake.Trouble {
			late := pgfake.Trouble{Again: s.lasts / 2}
			if st.Nth%2 == 0 {
				late.Loses = pgfake.ErrReset
			}
			return late
		})
		heal()
	case "wall clock":
		w.ahead.Add(int64(s.lasts))
	case "suspend":
		tb.Step(s.lasts)
		rec.mu.Lock()
		rec.woke = time.Now()
		rec.mu.Unlock()
		for _, w := range rec.hired { // also those that are still on their way out
			w.ahead.Add(int64(s.lasts))
		}
	}
}

package leader

import (
	"slices"
	"testing"
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
		policy: Policy{
			Grace:        duration("grace", time.Second, time.Minute),
			CatchUp:      rapid.SampledFrom([]CatchUp{CatchUpLatest, CatchUpAll, CatchUpSkip}).Draw(t, "catch up"),
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
	kinds := []string{"crash", "shutdown", "cut off", "slow", "lost answers", "wall clock", "suspend"}
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

func befall(t *testing.T, tb *table, story slotStory, rec *record, workers []*worker, s stroke) {
	victim := s.process
	if victim < 0 {
		leads := tb.row("job").Holder
		victim = max(0, slices.IndexFunc(workers, func(w *worker) bool { return w.holder == leads }))
	}
	w := workers[victim]
	heal := func() {
		time.AfterFunc(s.lasts, func() {
			if !w.crashed(tb) {
				w.path.suffer(nil)
			}
		})
	}
	switch s.kind {
	case "crash": // nothing of it reaches the server any more, and another is started later
		tb.mu.Lock()
		w.dead = true
		tb.mu.Unlock()
		w.path.suffer(always(trouble{hangs: true}))
		w.stop()
		time.Sleep(s.lasts)
		t.Cleanup(func() { w.path.unhang() })
		workers[victim] = hire(t, tb, story, rec)
	case "shutdown":
		w.stop()
		time.Sleep(s.lasts)
		workers[victim] = hire(t, tb, story, rec)
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

func (w *worker) crashed(tb *table) bool {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	return w.dead
}

package schedule_test

import (
	"fmt"
	"sync"
	"time"

	"github.com/pgleader/pgleader/internal/pgfake"
	"github.com/pgleader/pgleader/schedule"
)

// A witness knows what the works of all processes did, without the table, and judges that by it.
type witness struct {
	table *pgfake.Table
	story slotStory
	hired []*worker
	began time.Time

	mu       sync.Mutex
	alive    int // works of the job under a live term
	works    int // that were begun
	runs     map[time.Time][]*run
	reported map[time.Time]schedule.State // what a process said that a slot has come to
	calm     bool                         // there are no faults any more, and the works do nothing
	woke     time.Time                    // when the machines were last suspended
	ended    time.Time                    // when the processes were shut down
	failures []error
}

// A run is one run of a slot.
type run struct {
	attempt int
	token   int64
	ends    string

	returned bool
	err      error
	cut      bool // its context had ended when it returned
	lost     bool // its term had
	effect   bool // Complete was committed
}

func newWitness(tb *pgfake.Table, story slotStory) *witness {
	return &witness{
		table: tb, story: story, began: tb.Clock(),
		runs: make(map[time.Time][]*run), reported: make(map[time.Time]schedule.State),
	}
}

func (seen *witness) fail(format string, args ...any) {
	seen.failures = append(seen.failures, fmt.Errorf(format, args...))
}

// calmDown notes that there are no faults from now on.
func (seen *witness) calmDown() {
	seen.mu.Lock()
	defer seen.mu.Unlock()
	seen.calm = true
}

// suspend suspends all machines for a while. The clocks on the wall go on, the database's too.
func (seen *witness) suspend(d time.Duration) {
	seen.table.Step(d)
	seen.mu.Lock()
	seen.woke = time.Now()
	seen.mu.Unlock()
	for _, w := range seen.hired { // also those that are still on their way out
		w.ahead.Add(int64(d))
	}
}

// end notes that the processes are shut down from now on.
func (seen *witness) end() {
	now := seen.table.Clock()
	seen.mu.Lock()
	defer seen.mu.Unlock()
	seen.ended = now
}

// hear is told by the processes what became of the slots.
func (seen *witness) hear(event schedule.Event) {
	if event.Kind == schedule.EventFinished {
		seen.mu.Lock()
		defer seen.mu.Unlock()
		seen.reported[event.Slot] = event.State
	}
}

// begin notes that the work for a slot begins, and returns what it is to do.
func (seen *witness) begin(s *schedule.Slot) (*run, slotWork) {
	now := seen.table.Clock()
	seen.mu.Lock()
	defer seen.mu.Unlock()
	seen.alive++
	seen.judgeStart(s, now)
	seen.works++
	todo := seen.story.works[seen.works%len(seen.story.works)]
	// Faults come at whole milliseconds, and so never just when a work ends.
	todo.takes += 137 * time.Microsecond
	if seen.calm {
		todo = slotWork{ends: returns}
	}
	r := &run{attempt: s.Attempt(), token: s.Term().Token(), ends: todo.ends}
	seen.runs[s.Time()] = append(seen.runs[s.Time()], r)
	return r, todo
}

// leaveOff notes that a work ends, or its term.
func (seen *witness) leaveOff() {
	seen.mu.Lock()
	defer seen.mu.Unlock()
	seen.alive--
}

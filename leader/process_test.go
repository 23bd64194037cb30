package leader

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/internal/pgfake"
)

// A process is an elector with its own path to the table and a record of its events.
type process struct {
	*Elector
	path *pgfake.Path

	mu     sync.Mutex
	events []Event
}

// start makes a process with the configuration cfg, in a bubble. At the end of the test it checks
// that each election was followed by exactly one end.
func start(t *testing.T, tb *pgfake.Table, cfg Config) *process {
	t.Helper()
	p := newProcess(t, tb, cfg)
	t.Cleanup(func() {
		p.path.Unhang()
		synctest.Wait()
		p.checkPairs(t)
	})
	return p
}

func newProcess(t *testing.T, tb *pgfake.Table, cfg Config) *process {
	t.Helper()
	p := &process{path: pgfake.NewPath(tb)}
	cfg.Logger = slog.New(slog.DiscardHandler)
	cfg.OnEvent = func(event Event) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.events = append(p.events, event)
	}
	var err error
	if p.Elector, err = newElector(p.path.Connect, cfg); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *process) checkPairs(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	type term struct {
		job   string
		token int64
	}
	open := make(map[term]bool)
	seen := make(map[term]bool)
	for _, event := range p.events {
		id := term{event.Job, event.Token}
		switch event.Kind {
		case EventElected:
			if seen[id] {
				t.Errorf("elected twice to %+v", id)
			}
			open[id], seen[id] = true, true
		case EventLost, EventResigned:
			if !open[id] {
				t.Errorf("%s for %+v, which was not led", event.Kind, id)
			}
			delete(open, id)
		default:
		}
	}
	if len(open) > 0 {
		t.Errorf("no end was reported for %+v", slices.Collect(maps.Keys(open)))
	}
}

// reported returns the events of the given kinds.
func (p *process) reported(kinds ...EventKind) []Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []Event
	for _, event := range p.events {
		if slices.Contains(kinds, event.Kind) {
			found = append(found, event)
		}
	}
	return found
}

// mustLead acquires the job, or fails the test.
func (p *process) mustLead(t *testing.T, job string) *Term {
	t.Helper()
	term, ok, err := p.TryAcquire(t.Context(), job)
	if err != nil || !ok {
		t.Fatalf("TryAcquire(%q) = %v, %v; want a term", job, ok, err)
	}
	return term
}

func mustResign(t *testing.T, terms ...*Term) {
	t.Helper()
	for _, term := range terms {
		if err := term.Resign(); err != nil {
			t.Errorf("Resign of %q: %v", term.Job(), err)
		}
	}
}

// after fails the test unless so much time has passed since a moment.
func after(t *testing.T, since time.Time, want time.Duration, what string) {
	t.Helper()
	if got := time.Since(since); got != want {
		t.Errorf("%s after %v, want after %v", what, got, want)
	}
}

// within fails the test if more time has passed since a moment.
func within(t *testing.T, since time.Time, limit time.Duration, what string) {
	t.Helper()
	if got := time.Since(since); got > limit {
		t.Errorf("%s after %v, want within %v", what, got, limit)
	}
}

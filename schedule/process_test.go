package schedule_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/internal/pgfake"
	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/internal/wallclock"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// A process is an elector and a scheduler that share a pool and a path to the table. It keeps the
// scheduler's events.
type process struct {
	*leader.Elector
	*schedule.Scheduler
	path *pgfake.Path
	pool *sql.DB

	mu     sync.Mutex
	events []schedule.Event
	hear   func(schedule.Event) // is told each event too, or nil
}

// start makes a process in a bubble. At the end of the test it checks that each start of a slot was
// followed by exactly one end.
func start(t *testing.T, tb *pgfake.Table, cfg leader.Config) *process {
	t.Helper()
	p := newProcess(t, tb, cfg)
	t.Cleanup(func() {
		p.end()
		p.checkPairs(t)
	})
	return p
}

// newProcess makes a process in a bubble, whose end is up to the caller.
func newProcess(t *testing.T, tb *pgfake.Table, cfg leader.Config) *process {
	t.Helper()
	p := &process{path: pgfake.NewPath(tb)}
	p.pool = p.path.OpenDB()
	p.make(t, cfg)
	return p
}

// make makes the elector and the scheduler on the process's pool.
func (p *process) make(t *testing.T, cfg leader.Config) {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	var err error
	if p.Elector, err = leader.New(p.pool, cfg); err != nil {
		t.Fatal(err)
	}
	p.Scheduler, err = schedule.New(p.Elector, schedule.Config{OnEvent: p.note})
	if err != nil {
		t.Fatal(err)
	}
}

func (p *process) note(event schedule.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, event)
	if p.hear != nil {
		p.hear(event)
	}
}

// end lets go of all calls that hang, and closes the pool.
func (p *process) end() {
	p.path.Unhang()
	p.path.Wait()
	synctest.Wait()
	_ = p.pool.Close() // nothing is left to lose
}

// setWall puts the process's wall clock ahead of the monotonic one, by as much as is stored.
func (p *process) setWall(t *testing.T) (ahead *atomic.Int64) {
	t.Helper()
	ahead = new(atomic.Int64)
	wall := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())).Round(0) }
	if err := wallclock.Set(p.Elector, wall); err != nil {
		t.Fatal(err)
	}
	return ahead
}

// checkPairs fails the test unless each start that was reported has exactly one end, after it.
func (p *process) checkPairs(t *testing.T) {
	t.Helper()
	type attempt struct {
		job     string
		slot    time.Time
		attempt int
		token   int64
	}
	open := make(map[attempt]bool)
	for _, event := range p.reported() {
		id := attempt{event.Job, event.Slot, event.Attempt, event.Token}
		switch event.Kind {
		case schedule.EventStarted:
			if open[id] {
				t.Errorf("started twice: %+v", id)
			}
			open[id] = true
		case schedule.EventFinished:
			if !open[id] {
				t.Errorf("finished, and not started: %+v", id)
			}
			delete(open, id)
		default:
		}
	}
	for id := range open {
		t.Errorf("no end was reported for %+v", id)
	}
}

// reported returns the events of the given kinds, or of all.
func (p *process) reported(kinds ...schedule.EventKind) []schedule.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []schedule.Event
	for _, event := range p.events {
		if len(kinds) == 0 || slices.Contains(kinds, event.Kind) {
			found = append(found, event)
		}
	}
	return found
}

func mustResign(t *testing.T, term *leader.Term) {
	t.Helper()
	if err := term.Resign(); err != nil {
		t.Errorf("Resign of %q: %v", term.Job(), err)
	}
}

// follow has the process run a schedule in the background. The returned function shuts it down, and
// waits until it has.
func (p *process) follow(
	t *testing.T, slots schedule.Schedule, policy schedule.Policy, work slotFunc,
) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Scheduler.Run(ctx, "job", slots, policy, work) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run = %v, want what ended its context", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// crash makes sure that nothing of the process reaches the server any more.
func (p *process) crash() {
	p.path.Suffer(pgfake.Always(pgfake.Trouble{Hangs: true}))
	p.path.Disconnect()
}

// sleep waits, or returns ctx's error as soon as it ends.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// within fails the test if more time has passed since a moment.
func within(t *testing.T, since time.Time, limit time.Duration, what string) {
	t.Helper()
	if got := time.Since(since); got > limit {
		t.Errorf("%s after %v, want within %v", what, got, limit)
	}
}

package schedule_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/pgleader/pgleader/internal/pgfake"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

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

// play has three processes live the story, and returns what was wrong with it.
func play(t *testing.T, story slotStory) error {
	seen := newWitness(pgfake.NewTable(), story)
	workers := make([]*worker, 3)
	for i := range workers {
		workers[i] = hire(t, seen)
	}
	synctest.Wait() // all of them have seen the job without slots
	for _, f := range story.faults {
		time.Sleep(f.after)
		inject(t, f, seen, workers)
	}
	seen.calmDown()
	// Whatever was cut off is run again, and whatever is late is decided.
	time.Sleep(story.interval + 2*time.Minute)
	seen.end()
	for _, w := range workers {
		w.stop()
	}
	for _, w := range workers {
		w.path.Unhang()
		<-w.gone
	}
	for _, w := range seen.hired {
		w.pool.Close()
	}
	return seen.judge()
}

// A worker is a process of the story, which may die and be started again.
type worker struct {
	*process
	seen  *witness
	dead  atomic.Bool
	ahead *atomic.Int64 // of the wall clock to the monotonic one
	stop  context.CancelFunc
	gone  chan struct{}
}

// hire starts a worker on the story's schedule.
func hire(t *testing.T, seen *witness) *worker {
	ctx, stop := context.WithCancel(context.Background())
	w := &worker{
		process: newProcess(t, seen.table, leader.Config{TTL: 2 * time.Second}),
		seen:    seen,
		stop:    stop,
		gone:    make(chan struct{}),
	}
	seen.hired = append(seen.hired, w)
	w.ahead = w.setWall(t)
	w.hear = seen.hear
	go func() {
		defer close(w.gone)
		slots := every(seen.story.interval)
		err := w.Scheduler.Run(ctx, "job", slots, seen.story.policy, w.work)
		if !errors.Is(err, context.Canceled) {
			seen.mu.Lock()
			defer seen.mu.Unlock()
			seen.fail("Run: %w", err)
		}
	}()
	return w
}

func (w *worker) work(ctx context.Context, s *schedule.Slot) error {
	r, todo := w.seen.begin(s)
	leaveOff := sync.OnceFunc(w.seen.leaveOff)
	defer leaveOff()
	defer context.AfterFunc(s.Term().Context(), leaveOff)()
	err := w.do(ctx, s, r, todo)
	lost := s.Term().Err() != nil
	w.seen.mu.Lock()
	defer w.seen.mu.Unlock()
	r.returned, r.err = true, err
	r.cut, r.lost = ctx.Err() != nil, lost
	return err
}

func (w *worker) do(ctx context.Context, s *schedule.Slot, r *run, todo slotWork) error {
	if todo.deaf {
		ctx = context.WithoutCancel(ctx)
		time.Sleep(todo.takes)
	} else if err := sleep(ctx, todo.takes); err != nil {
		return err
	}
	switch todo.ends {
	case fails:
		return errBroken
	case completes:
		return w.complete(ctx, s, r, (*sql.Tx).Commit)
	case rollsBack:
		return w.complete(ctx, s, r, (*sql.Tx).Rollback)
	}
	return nil
}

// complete does what a user's transaction does: the effect and the state change together.
func (w *worker) complete(
	ctx context.Context, s *schedule.Slot, r *run, end func(*sql.Tx) error,
) error {
	tx, err := w.pool.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := s.Complete(ctx, tx); err != nil {
		return err
	}
	effect := func() {
		w.seen.mu.Lock()
		defer w.seen.mu.Unlock()
		r.effect = true
	}
	if _, err := tx.ExecContext(ctx, pgfake.Write, effect); err != nil {
		return err
	}
	return end(tx)
}

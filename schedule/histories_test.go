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

// A worker is a process of the story, which may die and be started again.
type worker struct {
	*process
	dead  atomic.Bool
	ahead *atomic.Int64 // of the wall clock to the monotonic one
	stop  context.CancelFunc
	gone  chan struct{}
}

func play(t *testing.T, story slotStory) error {
	tb := pgfake.NewTable()
	rec := newRecord(tb, story)
	workers := make([]*worker, 3)
	for i := range workers {
		workers[i] = hire(t, tb, story, rec)
	}
	synctest.Wait() // all of them have seen the job without slots
	for _, s := range story.strokes {
		time.Sleep(s.after)
		befall(t, tb, story, rec, workers, s)
	}
	rec.calmDown()
	time.Sleep(story.interval + 2*time.Minute) // whatever was cut off is run again, and whatever is late is decided
	rec.end()
	for _, w := range workers {
		w.stop()
	}
	for _, w := range workers {
		w.path.Unhang()
		<-w.gone
	}
	for _, w := range rec.hired {
		w.pool.Close()
	}
	return rec.judge()
}

func hire(t *testing.T, tb *pgfake.Table, story slotStory, rec *record) *worker {
	ctx, stop := context.WithCancel(context.Background())
	w := &worker{process: newProcess(t, tb, leader.Config{TTL: 2 * time.Second}), stop: stop, gone: make(chan struct{})}
	rec.hired = append(rec.hired, w)
	w.ahead = w.setWall(t)
	w.hear = rec.hear
	go func() {
		defer close(w.gone)
		err := w.Scheduler.Run(ctx, "job", every(story.interval), story.policy, func(ctx context.Context, s *schedule.Slot) error {
			return w.work(ctx, s, rec)
		})
		if !errors.Is(err, context.Canceled) {
			rec.mu.Lock()
			defer rec.mu.Unlock()
			rec.fail("Run: %w", err)
		}
	}()
	return w
}

func (w *worker) work(ctx context.Context, s *schedule.Slot, rec *record) error {
	r, todo := rec.begin(w, s)
	alive := sync.OnceFunc(rec.leaveOff)
	defer alive()
	defer context.AfterFunc(s.Term().Context(), alive)()
	err := w.do(ctx, s, rec, r, todo)
	lost := s.Term().Err() != nil
	rec.mu.Lock()
	defer rec.mu.Unlock()
	r.returned, r.err = true, err
	r.cut, r.lost = ctx.Err() != nil, lost
	return err
}

func (w *worker) do(ctx context.Context, s *schedule.Slot, rec *record, r *run, todo slotWork) error {
	if todo.deaf {
		ctx = context.WithoutCancel(ctx)
		time.Sleep(todo.takes)
	} else if err := sleep(ctx, todo.takes); err != nil {
		return err
	}
	switch todo.ends {
	case fails:
		return errors.New("it went wrong")
	case completes:
		return w.complete(ctx, s, rec, r, (*sql.Tx).Commit)
	case rollsBack:
		return w.complete(ctx, s, rec, r, (*sql.Tx).Rollback)
	}
	return nil
}

// complete does what a user's transaction does: the effect and the state change together.
func (w *worker) complete(
	ctx context.Context, s *schedule.Slot, rec *record, r *run, end func(*sql.Tx) error,
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
		rec.mu.Lock()
		defer rec.mu.Unlock()
		r.effect = true
	}
	if _, err := tx.ExecContext(ctx, pgfake.Write, effect); err != nil {
		return err
	}
	return end(tx)
}

// Package worker runs commands while this process leads their jobs. It passes signals on, keeps
// each command inside its term, and tells what happens.
//
// [Start] makes a worker. [Worker.Work] and [Worker.WorkSlot] run a command under a term that the
// caller got from the worker's Elector. [Run] and [Try] are all of that for one job.
package worker

import (
	"context"
	"database/sql"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/words"
	"github.com/pgleader/pgleader/internal/child"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

// A Config says how commands are run.
type Config struct {
	Pool  *sql.DB
	Voice *words.Voice // is told what happens

	// Holder names this process in the lease table. Default host:pid.
	Holder string

	// TTL is how long a lease lasts without renewal.
	TTL time.Duration

	// StopWithin is how long a command has between SIGTERM and SIGKILL when its lease is lost, from
	// 0 to LongestStop. The term ends that much earlier, so that the command is dead before another
	// instance starts.
	StopWithin time.Duration

	// Drain is how long a command may take to end after this process was asked to end. Default no
	// limit.
	Drain time.Duration

	// Reload makes SIGHUP a message in Worker.Reload. Default it goes to the commands.
	Reload bool

	// OnEvent and OnSlot are called for each event, after it was told. They must not block. Default
	// none.
	OnEvent func(leader.Event)
	OnSlot  func(schedule.Event)

	// The commands get these files. Default the null device.
	Stdin, Stdout, Stderr *os.File
}

// LongestStop is the longest StopWithin for a TTL: what is left of it has room for renewals.
func LongestStop(ttl time.Duration) time.Duration { return ttl * 5 / 12 }

// A Worker is a process that leads, or waits to.
type Worker struct {
	Elector   *leader.Elector
	Scheduler *schedule.Scheduler
	Reload    <-chan struct{} // gets a message for SIGHUP, with Config.Reload

	config Config
	reload chan struct{}
	stop   context.CancelFunc
	close  func()

	mu       sync.Mutex
	children map[*child.Child]struct{}
	ending   os.Signal // the signal that has asked this process to end
	drained  bool      // the drain timeout is over
}

// Start makes a worker, which listens to signals from then on. The context that it returns ends
// when this process is asked to end; the commands that run then go on. Call Close when the last has
// ended.
func Start(ctx context.Context, config Config) (*Worker, context.Context, error) {
	w := &Worker{
		config:   config,
		reload:   make(chan struct{}, 1),
		children: make(map[*child.Child]struct{}),
	}
	w.Reload = w.reload
	var err error
	w.Elector, err = leader.New(config.Pool, leader.Config{
		Holder:     config.Holder,
		TTL:        config.TTL,
		RenewEvery: config.renewEvery(),
		StopWithin: config.stopping(),
		Logger:     slog.New(slog.DiscardHandler),
		OnEvent:    w.tell,
	})
	if err != nil {
		return nil, nil, err
	}
	w.Scheduler, err = schedule.New(w.Elector, schedule.Config{OnEvent: w.tellSlot})
	if err != nil {
		return nil, nil, err
	}
	ctx, w.stop = context.WithCancel(ctx)
	stopSignals := w.listen()
	stopNotify := notify(config.TTL)
	w.close = func() {
		stopSignals()
		stopNotify()
		w.stop()
	}
	return w, ctx, nil
}

// Close ends the worker's context and stops listening to signals.
func (w *Worker) Close() { w.close() }

// Stop ends the worker's context, as a signal does that asks this process to end.
func (w *Worker) Stop() { w.stop() }

// renewEvery leaves room for StopWithin in the TTL: a third of it is for one renewal, a tenth the
// library's margin. What is left is a twentieth at least, by LongestStop.
func (c Config) renewEvery() time.Duration {
	room := c.TTL*17/30 - c.stopping()
	return min(c.TTL/3, room)
}

// stopping is StopWithin, and a tenth of the TTL for the kill itself: on a busy machine it takes a
// while until a process group is gone.
func (c Config) stopping() time.Duration { return c.StopWithin + c.TTL/10 }

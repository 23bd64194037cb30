//go:build unix

package main

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // driver "pgx"
	_ "github.com/lib/pq"              // driver "postgres"

	"github.com/pgleader/pgleader/internal/chaos/check"
	"github.com/pgleader/pgleader/internal/wallclock"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

// A worker is one process that campaigns for every job, and tells what happens to it.
type worker struct {
	order
	pool    *sql.DB
	clock   *sql.DB // past the faults of the network: only to ask the database for the time
	elector *leader.Elector
	wall    atomic.Int64 // by how much the wall clock was stepped, in nanoseconds
	value   atomic.Int64

	mu  sync.Mutex
	rng *rand.Rand
	out *json.Encoder
}

// workerMain is the whole life of a worker process. It returns the exit status.
func workerMain(text string) int {
	w := &worker{out: json.NewEncoder(os.Stdout)}
	if err := json.Unmarshal([]byte(text), &w.order); err != nil {
		fmt.Fprintln(os.Stderr, "chaos: worker:", err)
		return 2
	}
	w.rng = rand.New(rand.NewPCG(w.Seed, uint64(w.First)))
	w.value.Store(w.First)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := w.run(ctx); err != nil {
		w.tell(check.Record{Kind: check.Failure, Cause: err.Error()})
		return 1
	}
	return 0
}

func (w *worker) run(ctx context.Context) error {
	var err error
	if w.pool, err = sql.Open(w.Driver, w.URL); err != nil {
		return err
	}
	w.pool.SetMaxOpenConns(poolSize)
	w.pool.SetMaxIdleConns(poolSize)
	if w.clock, err = sql.Open("pgx", w.ClockURL); err != nil {
		return err
	}
	w.clock.SetMaxOpenConns(2)
	_, _ = w.databaseTime() // the connection is there then when it is needed, unless the server is not
	w.elector, err = leader.New(w.pool, leader.Config{
		Holder:     w.Worker,
		TTL:        w.TTL,
		RetryEvery: w.Look,
		Logger:     slog.New(slog.DiscardHandler),
		OnEvent:    w.report,
	})
	if err != nil {
		return err
	}
	scheduler, err := schedule.New(w.elector, schedule.Config{})
	if err != nil {
		return err
	}
	wall := func() time.Time { return time.Now().Round(0).Add(time.Duration(w.wall.Load())) }
	if err := wallclock.Set(w.elector, wall); err != nil {
		return err
	}
	go w.listen(os.Stdin)
	go w.feelPulse()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	failures := make(chan error, len(w.Jobs)+len(w.SlotJobs))
	for _, job := range w.Jobs {
		w.tell(check.Record{Kind: check.Campaign, Job: job})
		all.Go(func() { failures <- w.elector.Run(ctx, job, w.lead) })
	}
	policy := schedule.Policy{
		CatchUp: schedule.CatchUp(w.Catch), Attempts: 1000, RepeatFailed: w.Repeat,
	}
	for _, job := range w.SlotJobs {
		all.Go(func() { failures <- scheduler.Run(ctx, job, everySecond{w.Offset}, policy, w.slot) })
	}
	all.Wait()
	close(failures)
	for err := range failures {
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// report passes on the events of the library that a checker can use.
func (w *worker) report(e leader.Event) {
	r := check.Record{Job: e.Job, Token: e.Token}
	switch e.Kind {
	case leader.EventElected:
		r.Kind = check.Elected
	case leader.EventLost:
		r.Kind = check.Lost
	case leader.EventResigned:
		r.Kind = check.Resigned
	default:
		return
	}
	if e.Err != nil {
		r.Cause = e.Err.Error()
	}
	w.tell(r)
}

func (w *worker) tell(r check.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.At = time.Now()
	_ = w.out.Encode(r) // the parent is gone, and so will be this process
}

// listen obeys the parent, and ends with it.
func (w *worker) listen(in io.Reader) {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		command, arg, _ := strings.Cut(lines.Text(), " ")
		ms, _ := strconv.Atoi(arg)
		d := time.Duration(ms) * time.Millisecond
		switch command {
		case grab:
			go w.grab(d)
		case step:
			w.wall.Add(int64(d))
		}
	}
	os.Exit(3)
}

// grab takes every connection of the pool, as a job does that forgets to close its rows.
func (w *worker) grab(d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	for range poolSize {
		go func() {
			if conn, err := w.pool.Conn(ctx); err == nil {
				<-ctx.Done()
				_ = conn.Close()
			}
		}()
	}
	<-ctx.Done()
}

// feelPulse tells when this process did not run although nobody stopped it: a busy machine does
// that, and a checker should know.
func (w *worker) feelPulse() {
	const beat, skipped = 10 * time.Millisecond, 40 * time.Millisecond
	last := time.Now()
	for range time.Tick(beat) {
		now := time.Now()
		if now.Sub(last) > skipped {
			w.tell(check.Record{Kind: check.Stall, From: last})
		}
		last = now
	}
}

// chance is true once in n times.
func (w *worker) chance(n int) bool { return w.below(n) == 0 }

func (w *worker) below(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

func (w *worker) upTo(d time.Duration) time.Duration { return time.Duration(w.below(int(d))) }

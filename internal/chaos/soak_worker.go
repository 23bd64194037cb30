//go:build unix

package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

const soakEnv = "PGLEADER_CHAOS_SOAK"

// A soakOrder is what a process of a soak is told: it runs every worker whose number leaves Process
// when divided by Processes.
type soakOrder struct {
	URL, ClockURL      string
	Process, Processes int
	Workers, Jobs      int
	TTL                time.Duration
}

// soakPool is how many connections the workers of a process may have for each driver. An elector
// makes up to eight claims at once, and its renewals wait for a connection behind them.
const soakPool = 40

// rivals is how many workers compete for each job.
const rivals = 3

// jobsOf returns the jobs for which a worker competes, spread so that the rivals for a job are in
// different processes.
func (o soakOrder) jobsOf(worker int) []string {
	var jobs []string
	for j := range o.Jobs {
		for r := range rivals {
			if (j*rivals+j/o.Workers+r)%o.Workers == worker {
				jobs = append(jobs, fmt.Sprintf("soak-%d", j))
			}
		}
	}
	return jobs
}

// A soakLine is what a process of a soak says: how a term ended, or how it is.
type soakLine struct {
	Job        string    `json:"job,omitempty"`
	Token      int64     `json:"token,omitempty"`
	Alive      time.Time `json:"alive,omitzero"` // the database's time when its context last was
	Lost       bool      `json:"lost,omitempty"`
	Heap       uint64    `json:"heap,omitempty"`
	Goroutines int       `json:"goroutines,omitempty"`
}

type soakWorker struct {
	soakOrder
	clock *sql.DB

	mu   sync.Mutex
	live map[*leader.Term]time.Time
	out  *json.Encoder
}

func soakMain(text string) int {
	w := &soakWorker{live: make(map[*leader.Term]time.Time), out: json.NewEncoder(os.Stdout)}
	if err := json.Unmarshal([]byte(text), &w.soakOrder); err != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // ends with the parent
		os.Exit(3)
	}()
	if err := w.run(ctx); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "chaos: soak:", err)
		return 1
	}
	return 0
}

func (w *soakWorker) run(ctx context.Context) (err error) {
	if w.clock, err = sql.Open("pgx", w.ClockURL); err != nil {
		return err
	}
	w.clock.SetMaxOpenConns(2)
	pools := make([]*sql.DB, len(pgtest.Drivers))
	for i, driver := range pgtest.Drivers {
		if pools[i], err = sql.Open(driver, w.URL); err != nil {
			return err
		}
		pools[i].SetMaxOpenConns(soakPool)
		pools[i].SetMaxIdleConns(soakPool / 4)
	}
	var all sync.WaitGroup
	for i := w.Process; i < w.Workers; i += w.Processes {
		e, err := leader.New(pools[i/w.Processes%len(pools)], leader.Config{
			Holder: fmt.Sprintf("soak-%d", i), TTL: w.TTL, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			return err
		}
		for _, job := range w.jobsOf(i) {
			all.Go(func() { w.compete(ctx, e, job) })
		}
	}
	go w.tick(ctx)
	all.Wait()
	return ctx.Err()
}

// compete leads the job again and again, and gives it up by itself now and then.
func (w *soakWorker) compete(ctx context.Context, e *leader.Elector, job string) {
	for ctx.Err() == nil {
		_ = e.Run(ctx, job, w.lead) // ends when the work does, or with ctx
		pause(ctx, rand.N(time.Second))
	}
}

func (w *soakWorker) lead(ctx context.Context, term *leader.Term) error {
	w.mu.Lock()
	w.live[term] = time.Time{}
	w.mu.Unlock()
	pause(ctx, 10*time.Second+rand.N(time.Minute))
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.out.Encode(soakLine{
		Job: term.Job(), Token: term.Token(), Alive: w.live[term],
		Lost: term.Context().Err() != nil,
	})
	delete(w.live, term)
	return nil
}

// tick notes when terms were alive, by the database's clock, and tells how this process is.
func (w *soakWorker) tick(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		pause(ctx, 100*time.Millisecond)
		var now time.Time
		if err := w.clock.QueryRowContext(ctx, "SELECT clock_timestamp()").Scan(&now); err == nil {
			w.mu.Lock()
			for term := range w.live {
				if term.Context().Err() == nil {
					w.live[term] = now
				}
			}
			w.mu.Unlock()
		}
		if i%50 == 49 {
			var m runtime.MemStats
			runtime.GC() // or the figures would show when it ran last
			runtime.ReadMemStats(&m)
			w.mu.Lock()
			_ = w.out.Encode(soakLine{Heap: m.HeapAlloc, Goroutines: runtime.NumGoroutine()})
			w.mu.Unlock()
		}
	}
}

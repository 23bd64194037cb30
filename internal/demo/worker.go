package main

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // driver "pgx"
	_ "github.com/lib/pq"              // driver "postgres"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/leader"
)

// A working is one worker process: it campaigns for the job, and as its leader it writes every
// 100 ms.
type working struct {
	pool     *sql.DB
	elector  *leader.Elector
	commands chan string

	mu  sync.Mutex
	out *json.Encoder
}

const writeEvery = 100 * time.Millisecond

// worker is the whole life of a worker process. It returns the exit status.
func worker(name, driver, url string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &working{commands: make(chan string, 1), out: json.NewEncoder(os.Stdout)}
	go w.listen(os.Stdin, cancel)
	if err := w.run(ctx, name, driver, url); err != nil {
		fmt.Fprintf(os.Stderr, "demo: error: %s: %v\n", name, err)
		return 1
	}
	return 0
}

func (w *working) run(ctx context.Context, name, driver, url string) error {
	var err error
	if w.pool, err = sql.Open(driver, url); err != nil {
		return err
	}
	defer w.pool.Close()
	if err := warm(ctx, w.pool, 3); err != nil {
		return err
	}
	w.elector, err = leader.New(w.pool, leader.Config{
		Holder:     name,
		TTL:        ttl,
		RetryEvery: lookEvery,
		Logger:     slog.New(slog.DiscardHandler), // the demo narrates the events instead
		OnEvent:    w.report,
	})
	if err != nil {
		return err
	}
	err = w.elector.Run(ctx, job, w.lead)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// warm opens connections and leaves them in the pool. With a TTL this short a first connection to a
// busy server may take longer than the library gives a call, which is TTL/3.
func warm(ctx context.Context, pool *sql.DB, n int) error {
	pool.SetMaxIdleConns(n)
	for range n {
		conn, err := pool.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close() // together at the end, or they would all be the same one
	}
	return nil
}

// lead is the work of the leader.
func (w *working) lead(ctx context.Context, term *leader.Term) error {
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	for {
		if err := w.believe(ctx, term); err != nil {
			return err
		}
		if err := w.write(ctx, term); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		case command := <-w.commands:
			if command == pause {
				return w.sleepwalk(ctx, term)
			}
		}
	}
}

// write is a guarded write: it commits only if nobody else has begun to lead.
func (w *working) write(ctx context.Context, term *leader.Term) error {
	tx, err := w.pool.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after a commit
	if err := term.Guard(ctx, tx); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO demo_write (token, holder) VALUES ($1, $2)`,
		term.Token(), w.elector.Holder())
	if err != nil {
		return err
	}
	return tx.Commit()
}

// believe records a moment of database time at which this process took itself for the leader, by
// its context alone.
func (w *working) believe(ctx context.Context, term *leader.Term) error {
	var at time.Time
	if err := w.pool.QueryRowContext(ctx, `SELECT clock_timestamp()`).Scan(&at); err != nil {
		return err
	}
	if ctx.Err() != nil { // perhaps it had ended when the database looked at its clock
		return ctx.Err()
	}
	_, err := w.pool.ExecContext(ctx,
		`INSERT INTO demo_belief (token, holder, at) VALUES ($1, $2, $3)`,
		term.Token(), w.elector.Holder(), at)
	return err
}

// sleepwalk is the worst case of every election. The process checks that it leads and is stopped
// before it acts on it. When it wakes it acts as if no time had passed.
func (w *working) sleepwalk(ctx context.Context, term *leader.Term) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	w.tell(line{Kind: checked, Token: term.Token()})
	<-w.commands // the demo stops the process here, and lets it go on with resume
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), ttl)
	defer cancel()
	err := w.write(patient, term)
	result := line{Kind: woke, Token: term.Token(), Refused: errors.Is(err, leader.ErrLost)}
	if err != nil {
		result.Cause = err.Error()
	}
	result.RefusedDB = w.refusedByDatabase(patient, term)
	select {
	case <-ctx.Done():
		result.Ended = errors.Is(context.Cause(ctx), leader.ErrLost)
	case <-patient.Done():
	}
	w.tell(result)
	return err
}

// refusedByDatabase asks the same question as Term.Guard, without what this process has found out
// about its term by itself.
func (w *working) refusedByDatabase(ctx context.Context, term *leader.Term) bool {
	_, err := db.New(w.pool).GuardLease(ctx,
		db.GuardLeaseParams{JobName: job, Holder: w.elector.Holder(), Token: term.Token()})
	return errors.Is(err, sql.ErrNoRows)
}

// report passes the events of the library on.
func (w *working) report(event leader.Event) {
	l := line{Kind: string(event.Kind), Holder: event.Holder, Token: event.Token}
	if event.Err != nil {
		l.Cause = event.Err.Error()
	}
	w.tell(l)
}

func (w *working) tell(l line) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.out.Encode(l) // the demo is gone, and so will be this process
}

// listen hands on the commands of the demo, and ends the worker with them.
func (w *working) listen(in io.Reader, end func()) {
	defer close(w.commands)
	defer end()
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		w.commands <- lines.Text()
	}
}

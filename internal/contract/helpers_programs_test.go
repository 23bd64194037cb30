package contract_test

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/pgleader/pgleader/leader"
)

// programs are what start can run.
var programs = map[string]func(p *program) error{
	"lead":    lead,
	"tenures": tenures,
	"turns":   turns,
	"cycles":  cycles,
	"leases":  printLeases,
}

type program struct {
	order
	pool    *sql.DB
	elector *leader.Elector
	stdin   <-chan string
}

// runProgram is the main function of a process; it does not return.
func runProgram(text string) {
	p := &program{}
	err := json.Unmarshal([]byte(text), &p.order)
	if err == nil {
		p.pool, err = sql.Open(p.Driver, p.URL)
	}
	if err == nil {
		p.pool.SetMaxOpenConns(p.MaxConns)
		p.elector, err = leader.New(p.pool, leader.Config{
			Holder: p.Holder, TTL: p.TTL, RetryEvery: p.RetryEvery, Logger: slog.New(slog.DiscardHandler),
		})
	}
	if err == nil {
		stdin := make(chan string)
		p.stdin = stdin
		go func() {
			for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
				stdin <- lines.Text()
			}
			os.Exit(3) // the parent has gone
		}()
		err = programs[p.Program](p)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "process %s: %v\n", p.Program, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// lead leads the job whenever it can, until SIGTERM. It makes a guarded write when it is told to,
// and one more when a term is over, as work does that was on its way to it.
func lead(p *program) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	write := func(term *leader.Term) {
		switch err := guardedWrite(p.pool, term); {
		case err == nil:
			fmt.Println("written", term.Token())
		case errors.Is(err, leader.ErrLost):
			fmt.Println("refused", term.Token())
		default:
			fmt.Println("failed", err)
		}
	}
	err := p.elector.Run(ctx, p.Job, func(ctx context.Context, term *leader.Term) error {
		fmt.Println("elected", term.Token())
		for {
			select {
			case <-p.stdin:
				write(term)
			case <-ctx.Done():
				if errors.Is(context.Cause(ctx), leader.ErrLost) {
					write(term)
					fmt.Println("lost", term.Token())
				}
				return nil
			}
		}
	})
	if ctx.Err() == nil {
		return fmt.Errorf("Run returned by itself: %w", err)
	}
	fmt.Println("bye")
	return nil
}

func guardedWrite(pool *sql.DB, term *leader.Term) error {
	tx, err := pool.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := term.Guard(context.Background(), tx); err != nil {
		return err
	}
	const write = `INSERT INTO report (token) VALUES ($1)`
	if _, err := tx.ExecContext(context.Background(), write, term.Token()); err != nil {
		return err
	}
	return tx.Commit()
}

// tenures leads the job whenever it can, until SIGTERM, and says how long it took itself for the
// leader.
func tenures(p *program) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	err := p.elector.Run(ctx, p.Job, func(ctx context.Context, term *leader.Term) error {
		fmt.Println("elected", term.Token())
		text, err := json.Marshal(watch(ctx, term))
		fmt.Println("ended", string(text))
		return err
	})
	if ctx.Err() == nil {
		return fmt.Errorf("Run returned by itself: %w", err)
	}
	return nil
}

// turns leads for a moment, again and again, by two Runs at once, and records each turn, and
// whether somebody else was at work meanwhile: an advisory lock goes to one session at a time.
func turns(p *program) error {
	sessions, err := sql.Open(p.Driver, p.DirectURL)
	if err != nil {
		return err
	}
	defer sessions.Close()
	work := func(ctx context.Context, term *leader.Term) error {
		conn, err := sessions.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.ExecContext(ctx, `
			WITH alone AS MATERIALIZED (SELECT pg_try_advisory_lock(1) AS yes),
			work AS MATERIALIZED (SELECT yes, pg_sleep(0.005) FROM alone)
			INSERT INTO turn (pid, token, alone) SELECT $1, $2, yes FROM work`, os.Getpid(), term.Token())
		if err != nil {
			return err
		}
		_, err = conn.ExecContext(ctx, `SELECT pg_advisory_unlock_all()`)
		return err
	}
	fmt.Println("ready")
	<-p.stdin // all start at once
	failed := make(chan error)
	for range 2 {
		go func() {
			for {
				if err := p.elector.Run(context.Background(), p.Job, work); err != nil {
					failed <- err
				}
			}
		}()
	}
	return <-failed
}

// cycles campaigns and resigns a thousand times, and says how many goroutines and connections there
// were before and after.
func cycles(p *program) error {
	cycle := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		term, err := p.elector.Campaign(ctx, p.Job)
		if err != nil {
			return err
		}
		return term.Resign()
	}
	if err := cycle(); err != nil { // opens the pool
		return err
	}
	report := func(when string, goroutines int) {
		fmt.Println(when, goroutines, p.pool.Stats().OpenConnections, p.pool.Stats().InUse)
	}
	before := runtime.NumGoroutine()
	report("before", before)
	for n := range 1000 {
		if err := cycle(); err != nil {
			return err
		}
		if n%100 == 99 {
			fmt.Println("cycle", n+1)
		}
	}
	deadline := time.After(patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for late := false; runtime.NumGoroutine() > before && !late; { // the last are leaving
		select {
		case <-tick.C:
		case <-deadline:
			late = true
		}
	}
	report("after", runtime.NumGoroutine())
	<-p.stdin
	return nil
}

// printLeases prints what this process takes for the instants of the lease.
func printLeases(p *program) error {
	leases, err := p.elector.Leases(context.Background())
	for _, l := range leases {
		fmt.Println("lease",
			l.AcquiredAt.UnixMicro(), l.RenewedAt.UnixMicro(), l.ExpiresAt.UnixMicro(), time.Local)
	}
	return err
}

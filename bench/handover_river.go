package main

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
)

// riverHanding has a whole client of river's wait, with its listener, for the lease that is
// released as its elector would.
func (b *bench) riverHanding(ctx context.Context) (func() (time.Duration, error), error) {
	url, err := riverURL(ctx, b, false)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, err
	}
	b.Cleanup(pool.Close)
	driver := riverpgxv5.New(pool)
	exec := driver.GetExecutor()
	return func() (time.Duration, error) {
		if _, err := pool.Exec(ctx, `DELETE FROM river_leader`); err != nil {
			return 0, err
		}
		old, err := riverElect(ctx, exec, "old leader", time.Hour)
		if err != nil {
			return 0, err
		}
		workers := river.NewWorkers()
		river.AddWorker(workers, &idle{})
		client, err := river.NewClient(driver, &river.Config{
			Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1}},
			Workers: workers,
			Logger:  slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		if err != nil {
			return 0, err
		}
		if err := client.Start(ctx); err != nil {
			return 0, err
		}
		defer client.Stop(context.WithoutCancel(ctx))
		time.Sleep(300 * time.Millisecond) // it listens and has lost its first attempt
		begun := time.Now()
		if err := riverResign(ctx, exec, old); err != nil {
			return 0, err
		}
		for {
			leader, err := riverLeader(ctx, pool)
			if leader != "" || err != nil {
				return time.Since(begun), err
			}
			time.Sleep(500 * time.Microsecond)
		}
	}, nil
}

// riverLeader returns "" if there is none.
func riverLeader(ctx context.Context, pool *pgxpool.Pool) (string, error) {
	var leader string
	err := pool.QueryRow(ctx, `SELECT coalesce(max(leader_id), '') FROM river_leader`).Scan(&leader)
	return leader, err
}

type nothing struct{}

func (nothing) Kind() string { return "nothing" }

// idle is there because river's client wants a worker.
type idle struct {
	river.WorkerDefaults[nothing]
}

func (idle) Work(context.Context, *river.Job[nothing]) error { return nil }

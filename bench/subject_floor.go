package main

import (
	"context"
	"database/sql"
	"time"
)

const (
	rawUpdate = "raw prepared UPDATE"
	rawSelect = "raw prepared SELECT"

	// What the library renews in the background it renews after a rest, when the caches have other
	// things in them and the processor may sleep. So its floor rests as well.
	rest       = 10 * time.Millisecond
	rested     = " after 10 ms of rest"
	restedRaw  = rawUpdate + rested
	restEveryN = 5 // rounds, for those that rest take long
)

// floor is the least that a lease in a table can cost: one prepared statement by primary key. The
// row's next version fits beside it.
func floor(ctx context.Context, b *bench, at place) ([]cell, error) {
	pool, tag := at.pool, at.tag
	if err := b.exec(ctx, `CREATE TABLE IF NOT EXISTS floor (
		name text COLLATE "C" PRIMARY KEY, holder text NOT NULL,
		renewed_at timestamptz NOT NULL, expires_at timestamptz NOT NULL
	) WITH (fillfactor = 40)`); err != nil {
		return nil, err
	}
	job := "floor " + tag
	if err := b.exec(ctx, `INSERT INTO floor VALUES ($1, 'me', now(), now())`, job); err != nil {
		return nil, err
	}
	update, err := pool.PrepareContext(ctx, `UPDATE floor SET renewed_at = clock_timestamp(),
		expires_at = clock_timestamp() + make_interval(secs => $2) WHERE name = $1`)
	if err != nil {
		return nil, err
	}
	read, err := pool.PrepareContext(ctx,
		`SELECT holder, renewed_at, expires_at FROM floor WHERE name = $1`)
	if err != nil {
		return nil, err
	}
	return []cell{
		{bench: renew, subject: rawUpdate, run: func() error {
			_, err := update.ExecContext(ctx, job, 600.0)
			return err
		}},
		{bench: renew, subject: restedRaw, prepare: takeRest, every: restEveryN, run: func() error {
			_, err := update.ExecContext(ctx, job, 600.0)
			return err
		}},
		{bench: look, subject: rawSelect, run: func() error {
			var holder string
			var renewed, expires sql.NullTime
			return read.QueryRowContext(ctx, job).Scan(&holder, &renewed, &expires)
		}},
	}, nil
}

func takeRest() error {
	time.Sleep(rest)
	return nil
}

// exec is for set-up and preparation.
func (b *bench) exec(ctx context.Context, query string, args ...any) error {
	_, err := b.admin.ExecContext(ctx, query, args...)
	return err
}

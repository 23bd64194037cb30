package main

import (
	"context"
	"database/sql"
	"sync"

	"github.com/pgleader/pgleader/db"
)

// lookFirst is an alternative that pgleader does not use: a one-shot attempt that reads, and claims
// only what looks free. It costs a second round trip where the lease is free.
func lookFirst(ctx context.Context, b *bench, at place) ([]cell, error) {
	pool, tag := at.pool, at.tag
	const name = "alternative: LookLease, then claim"
	taken, free := "look-first "+tag, "look-first, free "+tag
	if err := b.occupy(ctx, taken); err != nil {
		return nil, err
	}
	if err := b.occupy(ctx, free); err != nil {
		return nil, err
	}
	q := db.New(pool)
	attempt := func(job string) error {
		row, err := q.LookLease(ctx, job)
		if err != nil || row.TimeLeft > 0 {
			return err
		}
		_, err = q.AcquireLease(ctx, db.AcquireLeaseParams{JobName: job, Holder: "me", TTLSeconds: 60})
		return err
	}
	return []cell{
		{bench: lose, subject: name, run: func() error { return attempt(taken) }},
		{bench: acquire, subject: name, prepare: func() error {
			return b.exec(ctx, `UPDATE leader_lease SET expires_at = now() WHERE job_name = $1`, free)
		}, run: func() error { return attempt(free) }},
	}, nil
}

// preparing is another: the same queries, each prepared once for a connection.
func preparing(ctx context.Context, b *bench, at place) ([]cell, error) {
	pool, tag := at.pool, at.tag
	q := db.New(&prepared{DBTX: pool, pool: pool, statements: map[string]*sql.Stmt{}})
	return queryCells(ctx, b, q, "alternative: generated query, prepared", "prepared "+tag)
}

// prepared is a pool for package db that prepares what it is given.
type prepared struct {
	db.DBTX
	pool *sql.DB

	mu         sync.Mutex
	statements map[string]*sql.Stmt
}

func (p *prepared) statement(ctx context.Context, query string) *sql.Stmt {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.statements[query]
	if s == nil {
		var err error
		if s, err = p.pool.PrepareContext(ctx, query); err != nil {
			panic(err) // a *sql.Row can't be made to carry it
		}
		p.statements[query] = s
	}
	return s
}

func (p *prepared) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return p.statement(ctx, query).ExecContext(ctx, args...)
}

func (p *prepared) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return p.statement(ctx, query).QueryContext(ctx, args...)
}

func (p *prepared) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return p.statement(ctx, query).QueryRowContext(ctx, args...)
}

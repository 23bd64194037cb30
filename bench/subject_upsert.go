package main

import (
	"context"
	"database/sql"
	"errors"
)

// textbook is the lease of the textbooks and of many libraries: one upsert for everything, which
// locks the row before it looks.
func textbook(ctx context.Context, b *bench, at place) ([]cell, error) {
	pool, tag := at.pool, at.tag
	const name = "textbook upsert"
	if err := b.exec(ctx, `CREATE TABLE IF NOT EXISTS textbook (
		name text PRIMARY KEY, holder text NOT NULL, expires_at timestamptz NOT NULL)`); err != nil {
		return nil, err
	}
	free, own, taken := "free "+tag, "own "+tag, "taken "+tag
	if err := b.exec(ctx, `INSERT INTO textbook VALUES ($1, 'me', '-infinity'), ($2, 'me', 'infinity'),
		($3, 'other', 'infinity')`, free, own, taken); err != nil {
		return nil, err
	}
	claim := func(job string) error { return textbookClaim(ctx, pool, job, "me", 600) }
	losing := func() error {
		if err := claim(taken); !errors.Is(err, sql.ErrNoRows) {
			return unexpected(err)
		}
		return nil
	}
	return []cell{
		{bench: acquire, subject: name, run: func() error { return claim(free) }, prepare: func() error {
			return b.exec(ctx,
				`UPDATE textbook SET holder = 'other', expires_at = now() WHERE name = $1`, free)
		}},
		{bench: renew, subject: name, run: func() error { return claim(own) }},
		{bench: lose, subject: name, run: losing},
		{bench: look, subject: name, run: losing},
		{bench: release, subject: name, prepare: func() error { return claim(free) }, run: func() error {
			_, err := pool.ExecContext(ctx,
				`UPDATE textbook SET expires_at = now() WHERE name = $1 AND holder = $2`, free, "me")
			return err
		}},
	}, nil
}

// textbookClaim returns sql.ErrNoRows if another holder has the lease.
func textbookClaim(ctx context.Context, pool *sql.DB, job, holder string, ttl float64) error {
	var got string
	return pool.QueryRowContext(ctx, `
		INSERT INTO textbook AS t (name, holder, expires_at)
		VALUES ($1, $2, now() + make_interval(secs => $3))
		ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at
		WHERE t.expires_at < now() OR t.holder = excluded.holder
		RETURNING holder`, job, holder, ttl).Scan(&got)
}

// unexpected is for an operation that should have failed in one way.
func unexpected(err error) error {
	if err == nil {
		return errors.New("it should have failed")
	}
	return err
}

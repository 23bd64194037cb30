package main

import (
	"context"
	"database/sql"
	"fmt"
)

// listening is a waiter as some libraries have it. An upsert always writes, and tells how much time
// is left; then it waits for a notification for so long.
func listening(ctx context.Context, b *bench, at place) ([]cell, error) {
	pool, tag := at.pool, at.tag
	const name = "upsert and LISTEN"
	if err := listeningTable(ctx, b); err != nil {
		return nil, err
	}
	free, own, taken := "free "+tag, "own "+tag, "taken "+tag
	if err := b.exec(ctx, `INSERT INTO listening
		VALUES ($1, 'other', now()), ($2, 'me', now() + '1 d'), ($3, 'other', now() + '1 d')`,
		free, own, taken); err != nil {
		return nil, err
	}
	expect := func(job string, want bool) error {
		mine, _, err := listeningClaim(ctx, pool, job, "me")
		if err == nil && mine != want {
			err = fmt.Errorf("claimed: %v", mine)
		}
		return err
	}
	claim := func() error { return expect(free, true) }
	return []cell{
		{bench: acquire, subject: name, run: claim, prepare: func() error {
			return b.exec(ctx,
				`UPDATE listening SET holder = 'other', expires_at = now() WHERE name = $1`, free)
		}},
		{bench: renew, subject: name, run: func() error { return expect(own, true) }},
		{bench: lose, subject: name, run: func() error { return expect(taken, false) }},
		{bench: look, subject: name, run: func() error { return expect(taken, false) }},
		{bench: release, subject: name, prepare: claim, run: func() error {
			return listeningRelease(ctx, pool, free, "me")
		}},
	}, nil
}

func listeningTable(ctx context.Context, b *bench) error {
	return b.exec(ctx, `CREATE TABLE IF NOT EXISTS listening (
		name text PRIMARY KEY, holder text NOT NULL, expires_at timestamptz NOT NULL)`)
}

func listeningClaim(
	ctx context.Context, pool *sql.DB, job, holder string,
) (mine bool, left float64, err error) {
	var got string
	err = pool.QueryRowContext(ctx, `
		INSERT INTO listening AS t (name, holder, expires_at)
		VALUES ($1, $2, now() + make_interval(secs => $3))
		ON CONFLICT (name) DO UPDATE SET
			holder = CASE WHEN t.expires_at < now() OR t.holder = excluded.holder
				THEN excluded.holder ELSE t.holder END,
			expires_at = CASE WHEN t.expires_at < now() OR t.holder = excluded.holder
				THEN excluded.expires_at ELSE t.expires_at END
		RETURNING holder, extract(epoch FROM expires_at - now())::float8`, job, holder, 600.0).
		Scan(&got, &left)
	return got == holder, left, err
}

func listeningRelease(ctx context.Context, pool *sql.DB, job, holder string) error {
	_, err := pool.ExecContext(ctx, `
		WITH gone AS (DELETE FROM listening WHERE name = $1 AND holder = $2 RETURNING name)
		SELECT pg_notify('listening', name) FROM gone`, job, holder)
	return err
}

package main

import (
	"context"
	"fmt"
	"hash/fnv"
)

// advisory is a session's advisory lock, on a connection that it must keep to itself for as long as
// it leads. There is nothing to renew.
func advisory(ctx context.Context, b *bench, at place) ([]cell, error) {
	pool, tag := at.pool, at.tag
	const name = "session advisory lock"
	key := func(job string) int64 {
		h := fnv.New64a()
		_, _ = h.Write([]byte(job + tag))
		return int64(h.Sum64())
	}
	free, taken := key("free"), key("taken")
	conn, err := pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	other, err := b.admin.Conn(ctx)
	if err != nil {
		return nil, err
	}
	b.Cleanup(func() { conn.Close(); other.Close() })
	if _, err := other.ExecContext(ctx, `SELECT pg_advisory_lock($1)`, taken); err != nil {
		return nil, err
	}
	ask := func(query string, key int64, want bool) error {
		var yes bool
		err := conn.QueryRowContext(ctx, query, key).Scan(&yes)
		if err == nil && yes != want {
			err = fmt.Errorf("%s = %v", query, yes)
		}
		return err
	}
	lock := func() error { return ask(`SELECT pg_try_advisory_lock($1)`, free, true) }
	unlock := func() error { return ask(`SELECT pg_advisory_unlock($1)`, free, true) }
	losing := func() error { return ask(`SELECT pg_try_advisory_lock($1)`, taken, false) }
	held := false // by this session
	take := func() error { held = true; return lock() }
	leave := func() error { held = false; return unlock() }
	return []cell{
		{bench: acquire, subject: name, run: take, prepare: func() error {
			if !held {
				return nil
			}
			return unlock()
		}},
		{bench: lose, subject: name, run: losing},
		{bench: look, subject: name, run: losing},
		{bench: release, subject: name, run: leave, prepare: func() error {
			if held {
				return nil
			}
			return lock()
		}},
	}, nil
}

// Package pgxlisten wakes the candidates of a process as soon as a lease is free, for programs on pgx. Without it they look at
// it every RetryEvery; all else is the same.
package pgxlisten

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	minBackoff   = 200 * time.Millisecond
	maxBackoff   = 30 * time.Second
	pingEvery    = 30 * time.Second
	connectLimit = 10 * time.Second // for anything that needs an answer
)

// Listen listens on a connection of its own until ctx ends, and returns ctx's error, or at once that of a URL that cannot be parsed. Start
// it in a goroutine, once per process, with the elector's method Wake. It connects again by itself, and wakes everyone when it has, for what
// was notified meanwhile is lost. The URL must not lead through a pooler in transaction mode: there LISTEN does nothing.
func Listen(ctx context.Context, url string, wake func(job string)) error {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("pgxlisten: %w", err)
	}
	backoff := minBackoff
	for {
		if listen(ctx, config, wake) {
			backoff = minBackoff
		}
		select {
		case <-time.After(backoff):
		case <-ctx.Done():
			return ctx.Err()
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// listen listens for as long as one connection lasts, and reports whether there was one.
func listen(ctx context.Context, config *pgx.ConnConfig, wake func(job string)) (connected bool) {
	soon, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	conn, err := pgx.ConnectConfig(soon, config)
	if err != nil {
		return false
	}
	defer func() {
		soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(soon)
	}()
	if _, err := conn.Exec(soon, "LISTEN leader_lease"); err != nil { // the channel that the queries of package db notify
		return false
	}
	wake("")
	for {
		patient, cancel := context.WithTimeout(ctx, pingEvery)
		n, err := conn.WaitForNotification(patient)
		quiet := patient.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case err == nil:
			wake(n.Payload)
		case !quiet || !alive(ctx, conn):
			return true
		}
	}
}

// alive asks the server for an answer: a connection whose network is gone is silent too.
func alive(ctx context.Context, conn *pgx.Conn) bool {
	soon, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	return !conn.IsClosed() && conn.Ping(soon) == nil
}

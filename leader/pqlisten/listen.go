// Package pqlisten wakes the candidates of a process as soon as a lease is free, for programs on lib/pq. Without it they look at
// it every RetryEvery; all else is the same.
package pqlisten

import (
	"context"
	"time"

	"github.com/lib/pq"
)

const (
	channel    = "leader_lease" // that the queries of package db notify
	minBackoff = 200 * time.Millisecond
	maxBackoff = 30 * time.Second
	pingEvery  = 30 * time.Second
)

// Listen listens on a connection of its own until ctx ends, and returns ctx's error. Start it in a goroutine, once per process, with the elector's method
// Wake. It connects again by itself, and wakes everyone when it has, for what was notified meanwhile is lost. The URL must not lead
// through a pooler in transaction mode: there LISTEN does nothing.
func Listen(ctx context.Context, url string, wake func(job string)) error {
	listener := pq.NewListener(url, minBackoff, maxBackoff, nil)
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() }) // which ends Listen too
	defer func() {
		if stop() {
			_ = listener.Close()
		}
	}()
	if err := listener.Listen(channel); err != nil { // waits for the first connection
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	wake("")
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	pinging := make(chan struct{}, 1)
	for {
		select {
		case n, ok := <-listener.Notify:
			switch {
			case !ok:
				return ctx.Err()
			case n == nil: // connected again
				wake("")
			default:
				wake(n.Extra)
			}
		case <-ping.C:
			select {
			case pinging <- struct{}{}:
				go func() { // it may hang with the network
					_ = listener.Ping() // a failure makes the listener connect again
					<-pinging
				}()
			default:
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Package pqwake wakes the candidates of a process as soon as a lease is free, for programs on
// lib/pq. Without it they look at the lease every RetryEvery; all else is the same.
package pqwake

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"github.com/lib/pq"

	"github.com/pgleader/pgleader/internal/wake"
)

// Config says where Listen listens, whom it wakes, and who hears of failures.
type Config struct {
	// URL is the database's, or a key=value string, as lib/pq takes it. It must not lead through a
	// pooler in transaction mode: there LISTEN does nothing. Its connect_timeout bounds the login
	// at each host, default 10 s.
	URL string

	// Wake is the elector's method Wake. It is called for one job when its lease changes hands, and
	// for "", every job, after each connect: what was notified before that is lost.
	Wake func(job string)

	// Logger gets one warning for each row of failures, with the first of them, and one line when it
	// is over, with how long it took. Default slog.Default().
	Logger *slog.Logger

	// OnError, if set, is called beside each of the warnings, for metrics. It must not block, for
	// the listener waits for it. What Listen returns is not passed to it. Default nil.
	OnError func(error)
}

// Listen listens on a connection of its own until ctx ends, and returns ctx's error. Start one in
// each process, in a goroutine that looks at what it returns.
//
// It connects again by itself, with pauses of 200 ms to 30 s, after whatever may pass: a server
// that is down, starting, full, read-only or silent, or a connection that was lost.
//
// What waiting can't mend it returns at once, also after it has listened for long: a Config that
// can't be used, a wrong password or user, an unknown database, a missing right to connect,
// settings in the URL that the server refuses, TLS that it does not have. From then on candidates
// only look every RetryEvery. So a password that changes in the database before it changes here
// ends the listener. No error's text has the password in it; but the driver's error, which
// errors.As finds in it, may show a URL that can't be parsed.
//
// Listen returns promptly when ctx ends, also while it connects, and leaves nothing running.
func Listen(ctx context.Context, cfg Config) error {
	parsed, err := pq.NewConfig(cfg.URL)
	if err != nil {
		return wake.BadURL("pqwake", cfg.URL, err)
	}
	perHost := parsed.ConnectTimeout
	if perHost <= 0 {
		perHost = wake.ConnectLimit
	}
	return wake.Listen(ctx, wake.Config(cfg), wake.Driver{
		Name:    "pqwake",
		Connect: func(ctx context.Context) (wake.Session, error) { return connect(ctx, cfg.URL) },
		// sslmode and target_session_attrs can make lib/pq try a host twice.
		Limit:  2 * time.Duration(1+len(parsed.Multi)) * perHost,
		Advice: advice,
	})
}

func advice(err error) string {
	var file *fs.PathError
	switch {
	case errors.Is(err, pq.ErrSSLNotSupported):
		return wake.NoTLS
	case errors.As(err, &file), errors.Is(err, pq.ErrSSLKeyHasWorldPermissions),
		errors.Is(err, pq.ErrSSLKeyUnknownOwnership):
		return "check the files that sslcert, sslkey and sslrootcert name in Config.URL"
	}
	return ""
}

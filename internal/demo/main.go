// Command demo shows what pgleader promises, on a real Postgres and with real processes. Three
// workers compete for one job while their leaders are killed, stopped and terminated. It needs Go,
// and either Docker or a PostgreSQL installation.
//
//	go run ./internal/demo
//
// It ends with a table of what happened, how long it took and what was promised. The exit status is
// 1 if a promise was broken.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
)

const (
	job       = "nightly-report"
	ttl       = 3 * time.Second
	lookEvery = 600 * time.Millisecond // leader.Config.RetryEvery
	oneLook   = lookEvery + lookEvery/4
)

func main() {
	if len(os.Args) == 4 && os.Args[1] == "worker" {
		os.Exit(worker(os.Args[2], os.Args[3], os.Getenv("DATABASE_URL")))
	}
	if len(os.Args) != 1 {
		fmt.Fprintln(os.Stderr, "usage: go run ./internal/demo")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second ^C does not wait for the clean-up
	v, err := demo(ctx, os.Stdout)
	switch {
	case err != nil && ctx.Err() != nil:
		err = fmt.Errorf("interrupted: %w", err)
	case errors.Is(err, errNever), errors.Is(err, errRestless):
		err = fmt.Errorf("%w\ndemo: hint: nothing that slow is expected; "+
			"if this machine is overloaded, try again later", err)
	}
	v.write(os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo: error:", err)
	}
	os.Exit(status(v, err))
}

// status is the exit status: 0 only if the whole story was told and every promise in it was kept.
func status(v verdict, err error) int {
	if err != nil || !v.kept() {
		return 1
	}
	return 0
}

// demo starts a throwaway server, tells the story on it and cleans up.
func demo(ctx context.Context, out io.Writer) (v verdict, err error) {
	if !signalsWork {
		return nil, errors.New("the demo stops processes by Unix signals: " +
			"run it on Linux or macOS, or in WSL")
	}
	say := newNarrator(out)
	say.title("pgleader: three workers, one job. A lease lives for %v without renewal (TTL);\n"+
		"a worker that waits looks at it every %v to %v.\n", ttl, lookEvery, oneLook)
	say.line("demo", "starts a throwaway Postgres")
	server, err := pgtest.Start(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	say.line("demo", "has PostgreSQL %s", server.Version)
	say.line("demo", "%s", server.Where)

	url, err := server.CreateDatabase(ctx, false)
	if err != nil {
		return nil, err
	}
	return story(ctx, url, say)
}

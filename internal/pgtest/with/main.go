// Command with runs a command beside a throwaway Postgres.
//
//	go run ./internal/pgtest/with [-migrate] -- command [argument...]
//
// The command sees PGLEADER_POSTGRES, the URL of the server, so that all tests it runs share one.
// DATABASE_URL and PGLEADER_VET_URL are the URL of a fresh database there, with the project's
// schema if -migrate is given. The environment of this process says which Postgres it is; see
// package pgtest. The exit status is the command's.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/pgleader/pgleader/internal/pgtest"
)

func main() {
	migrate := flag.Bool("migrate", false, "run the up migrations in the fresh database")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: with [-migrate] -- command [argument...]")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	status, err := run(*migrate, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = max(status, 1)
	}
	os.Exit(status)
}

func run(migrate bool, args []string) (status int, err error) {
	// Caught from here on: a ^C during the start must still lead to the clean-up.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	type started struct {
		server *pgtest.Server
		err    error
	}
	ready := make(chan started, 1)
	go func() {
		server, err := pgtest.Start(ctx)
		ready <- started{server, err}
	}()
	var s started
	interrupted := false
	for waiting := true; waiting; {
		select {
		case <-signals:
			interrupted = true
			cancel()
		case s = <-ready:
			waiting = false
		}
	}
	if s.err != nil {
		return 1, s.err
	}
	defer func() { err = errors.Join(err, s.server.Close()) }()
	if interrupted {
		return 1, errors.New("pgtest: interrupted")
	}
	fmt.Fprintf(os.Stderr, "pgtest: %v\n", s.server)

	url, err := s.server.CreateDatabase(ctx, migrate)
	if err != nil {
		return 1, err
	}
	env := append(os.Environ(), "PGLEADER_POSTGRES="+s.server.URL, "DATABASE_URL="+url,
		"PGLEADER_VET_URL="+url)
	if kind := s.server.Kind(); kind != "url" {
		env = append(env, "PGLEADER_POSTGRES_PRIVATE="+kind)
	}
	return command(args, env, signals)
}

// command runs the command, passes signals on, and returns its exit status, 128 + n after signal n
// as a shell has it.
func command(args, env []string, signals <-chan os.Signal) (status int, err error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return 127, fmt.Errorf("with: %w", err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case sig := <-signals:
			cmd.Process.Signal(sig)
		case err := <-done:
			var exit *exec.ExitError
			if !errors.As(err, &exit) {
				return 0, err
			}
			if wait, ok := exit.Sys().(syscall.WaitStatus); ok && wait.Signaled() {
				return 128 + int(wait.Signal()), nil
			}
			return exit.ExitCode(), nil
		}
	}
}

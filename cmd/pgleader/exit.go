package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/explain"
	"github.com/pgleader/pgleader/cmd/pgleader/internal/words"
	"github.com/pgleader/pgleader/cmd/pgleader/internal/worker"
	"github.com/pgleader/pgleader/internal/child"
	"github.com/pgleader/pgleader/migrations"
)

// Exit statuses of pgleader's own; otherwise it exits with the status of the command that it ran.
const (
	exitNo       = 1   // it could ask, and the answer is no
	exitConflict = 75  // another instance leads; EX_TEMPFAIL of sysexits.h
	exitLost     = 124 // the lease was lost while the command ran, which was ended; as timeout(1)
	exitFailed   = 125 // pgleader itself failed, or was called wrongly; as timeout(1) and env(1)
	// 126 and 127, as a shell: the command cannot be executed, or was not found.
)

// An exitError ends pgleader with a status. With a nil err nothing is printed.
type exitError struct {
	code int
	err  error
}

func (e exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

func (e exitError) Unwrap() error { return e.err }

// negative ends a command whose answer is no. With a nil err the output says it all.
func negative(err error) error { return exitError{exitNo, err} }

// exitWith ends pgleader as its command has ended.
func exitWith(r worker.Result) error {
	var start *child.StartError
	switch {
	case errors.As(r.Err, &start):
		return exitError{start.ExitCode, r.Err}
	case r.Err != nil:
		return exitError{exitFailed, r.Err}
	case r.Lost:
		return exitError{exitLost, errors.New("the lease was lost while the command ran, " +
			"and the command was ended")}
	case r.Code != 0:
		return exitError{code: r.Code}
	}
	return nil
}

// exitStatus prints an error, if there is one to print, and returns the exit status.
func exitStatus(stderr io.Writer, err error) int {
	if err == nil {
		return 0
	}
	var exit exitError
	if errors.As(err, &exit) && exit.err == nil {
		return exit.code
	}
	printError(stderr, err)
	if exit.code != 0 {
		return exit.code
	}
	return exitFailed
}

// printError prints an error and what to do about it, one line each.
func printError(stderr io.Writer, err error) {
	var dirty *migrations.DirtyError
	if errors.As(err, &dirty) { // it comes with the commands that repair it
		text := strings.TrimPrefix(dirty.Error(), "migrations: ")
		fmt.Fprintln(stderr, words.Folded("pgleader: error: "+text))
		return
	}
	fmt.Fprintf(stderr, "pgleader: error: %s\n", explain.Message(err))
	if advice := explain.Advice(err); advice != "" {
		fmt.Fprintf(stderr, "pgleader: hint: %s\n", advice)
	}
}

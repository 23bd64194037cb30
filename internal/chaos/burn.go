//go:build unix

package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
)

const burnEnv = "PGLEADER_CHAOS_BURN"

// burn starts n processes that do nothing but keep the machine busy. They are processes because
// goroutines of this one would keep its own proxies and clocks waiting.
func burn(n int) (stop func(), err error) {
	var ends []func()
	stop = func() {
		for _, end := range ends {
			end()
		}
	}
	self, err := os.Executable()
	for range n {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), burnEnv+"=1")
		stdin, pipeErr := cmd.StdinPipe()
		if err = errors.Join(err, pipeErr); err == nil {
			err = cmd.Start()
		}
		if err != nil {
			return stop, err
		}
		ends = append(ends, func() { _ = stdin.Close(); _ = cmd.Process.Kill(); _ = cmd.Wait() })
	}
	return stop, err
}

// burnMain is such a process, until the one that started it has gone.
func burnMain() {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	for n := 1; n != 0; n += 2 { // for as long as it takes
	}
}

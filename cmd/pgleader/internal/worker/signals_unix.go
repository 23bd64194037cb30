//go:build unix

package worker

import (
	"os"
	"syscall"

	"github.com/pgleader/pgleader/internal/child"
)

// caught are the signals that commands get.
func caught() []os.Signal {
	return []os.Signal{
		syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGUSR1, syscall.SIGUSR2,
	}
}

func isReload(sig os.Signal) bool { return sig == syscall.SIGHUP }

// endsAll reports whether the signal asks a process to end.
func endsAll(sig os.Signal) bool { return sig == syscall.SIGTERM || sig == syscall.SIGINT }

// endsIdle reports whether the signal would end a process that does nothing about it. A command may
// have its own use for it.
func endsIdle(sig os.Signal) bool { return sig == syscall.SIGHUP || sig == syscall.SIGQUIT }

// pass sends a signal to a command. What is stopped, as by reading the terminal, could not act on
// one that asks it to end.
func pass(c *child.Child, sig os.Signal) {
	_ = c.Signal(sig) // an error means that it has just ended
	if endsAll(sig) || endsIdle(sig) {
		_ = c.Signal(syscall.SIGCONT)
	}
}

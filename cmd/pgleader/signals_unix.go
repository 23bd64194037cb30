//go:build unix

package main

import (
	"os"
	"syscall"
)

var caught = []os.Signal{
	syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
}

func isReload(sig os.Signal) bool { return sig == syscall.SIGHUP }

// endsAll reports whether the signal asks a process to end.
func endsAll(sig os.Signal) bool { return sig == syscall.SIGTERM || sig == syscall.SIGINT }

// endsIdle reports whether the signal would end a process that does nothing about it. A command may have its own use for it.
func endsIdle(sig os.Signal) bool { return sig == syscall.SIGHUP || sig == syscall.SIGQUIT }

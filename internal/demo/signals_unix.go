//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

const signalsWork = true

const (
	sigKill = syscall.SIGKILL
	sigTerm = syscall.SIGTERM
	sigStop = syscall.SIGSTOP
	sigCont = syscall.SIGCONT
)

// detach keeps a ^C at the terminal away from the command: the demo ends it, in order. A process
// group of its own also makes the kernel wake and end a stopped worker when the demo is killed.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

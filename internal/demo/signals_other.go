//go:build !unix

package main

import (
	"os/exec"
	"syscall"
)

const signalsWork = false

const (
	sigKill = syscall.SIGKILL
	sigTerm = syscall.SIGTERM
	sigStop = syscall.Signal(-1)
	sigCont = syscall.Signal(-1)
)

func detach(*exec.Cmd) {}

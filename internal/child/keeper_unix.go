//go:build unix

package child

import (
	"encoding/gob"
	"errors"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// Not the caller's name: killall -9 would kill both, and nobody were left to kill the command's
// children.
const keeperName = "lease-keeper"

const keeperVariable = "PGLEADER_LEASE_KEEPER"

// Main does the keeper's work and exits if this process was started as a keeper; otherwise it
// returns at once. A program that calls [Start] calls it first in main.
func Main() {
	if os.Getenv(keeperVariable) == "" {
		return
	}
	keep(3, 4) // the first of ExtraFiles and the second
	os.Exit(0)
}

func keep(controlFD, statusFD int) {
	// The parent-death signal follows the thread that forked, not the process.
	runtime.LockOSThread()
	// With them the command could hold up the others' view of each other's death.
	syscall.CloseOnExec(controlFD)
	syscall.CloseOnExec(statusFD)
	control := os.NewFile(uintptr(controlFD), "control")
	status := os.NewFile(uintptr(statusFD), "status")
	stayAlive()
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	adoptOrphans()

	in := gob.NewDecoder(control)
	var s spec
	if in.Decode(&s) != nil {
		return
	}
	k := newKeeper(s)
	if k.until.remaining() <= 0 {
		report{Kind: reportRefused}.send(status)
		return
	}
	var err error
	if k.pgid, err = s.start(); err != nil {
		var errno syscall.Errno
		if !errors.As(err, &errno) {
			errno = syscall.EINVAL
		}
		report{Kind: reportRefused, Value: int32(errno)}.send(status)
		return
	}
	report{Kind: reportStarted, Value: int32(k.pgid)}.send(status)

	orders := make(chan order)
	go func() {
		defer close(orders)
		for {
			var o order
			if in.Decode(&o) != nil {
				return
			}
			orders <- o
		}
	}()
	for !k.step() {
		select {
		case o, ok := <-orders:
			if ok {
				k.obey(o)
				report{Kind: reportHeard}.send(status)
			} else {
				orders = nil
				k.terminate() // the caller is dead
			}
		case <-children:
		case <-time.After(k.untilDue()):
		}
	}
	k.end.send(status)
}

// stayAlive catches what would end or stop the keeper: it may be sent to all processes of a
// service, and the keeper has to survive the command. Signals that are ignored stay so, as the
// command inherits this, but not what is caught.
func stayAlive() {
	caught := make(chan os.Signal, 1)
	for _, s := range []os.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM,
		syscall.SIGPIPE, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU,
	} {
		if !signal.Ignored(s) {
			signal.Notify(caught, s)
		}
	}
}

// start returns the command's process, which leads a group of the same number.
func (s spec) start() (int, error) {
	attr := &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(attr)
	return syscall.ForkExec(s.Path, s.Args, &syscall.ProcAttr{
		Dir: s.Dir, Env: s.Env, Files: []uintptr{0, 1, 2}, Sys: attr,
	})
}

//go:build unix

package child

import (
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A Child is a command that was started.
type Child struct {
	grace  time.Duration
	path   string
	keeper *exec.Cmd
	status *os.File
	raw    syscall.RawConn // of status
	begun  chan struct{}
	done   chan struct{}
	result Result // belongs to supervise until done

	mu        sync.Mutex
	control   *os.File
	orders    *gob.Encoder
	wanted    deadline // what the last Extend said
	until     time.Time
	sent      deadline // in the order that is under way, if there is one
	heard     deadline // what the keeper knows
	underWay  bool
	dirty     bool // there is more to tell when it has arrived
	pgid      int
	over      bool // the keeper has ended, or has nothing left to say
	last      *report
	stopped   time.Time
	overdue   time.Time // since when the group should be dead
	reminders int       // that it was given since
	silent    bool
}

// Start runs the command and returns when it is running, or cannot be. Its time ends at until,
// which has to carry a monotonic reading. The error is a [*StartError] if the command itself is to
// blame.
func Start(c Command, until time.Time) (*Child, error) {
	if len(c.Args) == 0 {
		return nil, errNoCommand
	}
	path, err := c.resolve()
	if err != nil {
		return nil, err
	}
	if c.Env == nil {
		c.Env = os.Environ()
	}
	c.Env = lastOfEach(c.Env)
	d := newDeadline(until)
	child := &Child{
		grace: max(c.Grace, 0), path: path, until: until, wanted: d, heard: d,
		begun: make(chan struct{}), done: make(chan struct{}),
	}
	if err := child.startKeeper(c); err != nil {
		return nil, fmt.Errorf("child: start the keeper: %w", err)
	}
	go child.supervise()
	// A keeper that does not read blocks this, until supervise kills it.
	first := order{until, d.remaining(), false}
	err = child.orders.Encode(spec{path, c.Args, c.Env, c.Dir, child.grace, first})
	if err != nil {
		child.keeper.Process.Kill()
	}
	select {
	case <-child.begun:
		return child, nil
	case <-child.done:
		return child.startResult()
	}
}

// lastOfEach leaves one entry of each variable, as os/exec does: some programs take the first of
// several, some the last.
func lastOfEach(env []string) []string {
	last := make(map[string]int, len(env))
	for i, entry := range env {
		key, _, _ := strings.Cut(entry, "=")
		last[key] = i
	}
	var kept []string
	for i, entry := range env {
		if key, _, _ := strings.Cut(entry, "="); last[key] == i {
			kept = append(kept, entry)
		}
	}
	return kept
}

// startKeeper runs this binary again, in a process group of its own: what the terminal or somebody
// else sends to the caller's group must not stop it.
func (c *Child) startKeeper(command Command) error {
	path, err := keeperPath()
	if err != nil {
		return err
	}
	orders, control, err := os.Pipe()
	if err != nil {
		return err
	}
	defer orders.Close()
	status, reports, err := os.Pipe()
	if err != nil {
		control.Close()
		return err
	}
	defer reports.Close()
	c.keeper = &exec.Cmd{
		Path:        path,
		Args:        []string{keeperName, "of", strconv.Itoa(os.Getpid())},
		Env:         append(os.Environ(), keeperVariable+"=1"),
		ExtraFiles:  []*os.File{orders, reports},
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	wakeWithParent(c.keeper.SysProcAttr)
	// A nil *os.File in one of these would not be a nil interface.
	if command.Stdin != nil {
		c.keeper.Stdin = command.Stdin
	}
	if command.Stdout != nil {
		c.keeper.Stdout = command.Stdout
	}
	if command.Stderr != nil {
		c.keeper.Stderr = command.Stderr
	}
	if c.raw, err = status.SyscallConn(); err == nil {
		err = c.keeper.Start()
	}
	if err != nil {
		control.Close()
		status.Close()
		return err
	}
	c.control, c.orders, c.status = control, gob.NewEncoder(control), status
	return nil
}

// startResult is Start's result if the keeper is done already.
func (c *Child) startResult() (*Child, error) {
	switch {
	case c.pgid != 0:
		return c, nil
	case c.last == nil && c.wanted.remaining() <= 0 || c.last != nil && c.last.Value == 0:
		return nil, errTooLate
	case c.last == nil:
		return nil, errors.New("child: the keeper died before it started the command")
	default:
		return nil, startError(&fs.PathError{Op: "exec", Path: c.path, Err: syscall.Errno(c.last.Value)})
	}
}

// Extend lets the command run until then, which has to carry a monotonic reading. It replaces the
// time given before, unless that has passed already. It never blocks.
func (c *Child) Extend(until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until, c.wanted = until, newDeadline(until)
	c.sendOrder()
}

// Stop asks the command to end, by SIGTERM, and has it killed after its Grace. It does not wait for
// it.
func (c *Child) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || !c.stopped.IsZero() {
		return
	}
	c.stopped = time.Now()
	c.sendOrder()
	// Somebody may have stopped it, and the command deserves its SIGTERM.
	c.keeper.Process.Signal(syscall.SIGCONT)
	// Wakes supervise: the time that it waits for has changed.
	c.status.SetReadDeadline(time.Now())
}

// sendOrder sends an order, or sees to it that one follows the one that is under way. The caller
// holds mu.
func (c *Child) sendOrder() {
	if c.over {
		return
	}
	if c.underWay {
		c.dirty = true
		return
	}
	c.underWay, c.dirty, c.sent = true, false, c.wanted
	// An error means that the keeper is dead, which supervise sees.
	_ = c.orders.Encode(order{c.until, c.wanted.remaining(), !c.stopped.IsZero()})
}

// Signal sends the signal to the command's process group. The error is [os.ErrProcessDone] if
// nothing is left of it.
func (c *Child) Signal(sig os.Signal) error {
	s, ok := sig.(syscall.Signal)
	if !ok {
		return fmt.Errorf("child: signal %v: %w", sig, errors.ErrUnsupported)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readReports()
	if c.over {
		return os.ErrProcessDone
	}
	switch err := syscall.Kill(-c.pgid, s); {
	case errors.Is(err, syscall.ESRCH):
		return os.ErrProcessDone
	case err != nil:
		return fmt.Errorf("child: signal %v: %w", s, err)
	}
	return nil
}

// Done returns a channel that closes when the command has ended and nothing of its process group is
// left.
func (c *Child) Done() <-chan struct{} { return c.done }

// Result waits for Done and says what became of the command.
func (c *Child) Result() Result {
	<-c.done
	return c.result
}

//go:build !unix

package child

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"
)

// Main returns at once: there is no keeper on this system.
func Main() {}

// A Child is a command that was started.
type Child struct {
	process *os.Process
	job     job
	wake    chan struct{} // Extend and Stop
	done    chan struct{}
	result  Result // belongs to supervise until done

	mu    sync.Mutex
	until deadline
	stop  bool
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
	d := newDeadline(until)
	if d.remaining() <= 0 {
		return nil, errTooLate
	}
	cmd := &exec.Cmd{Path: path, Args: c.Args, Env: c.Env, Dir: c.Dir}
	// A nil *os.File in one of these would not be a nil interface.
	if c.Stdin != nil {
		cmd.Stdin = c.Stdin
	}
	if c.Stdout != nil {
		cmd.Stdout = c.Stdout
	}
	if c.Stderr != nil {
		cmd.Stderr = c.Stderr
	}
	job, err := newJob()
	if err != nil {
		return nil, fmt.Errorf("child: create a job: %w", err)
	}
	if err := cmd.Start(); err != nil {
		job.close()
		return nil, startError(err)
	}
	if err := job.add(cmd.Process); err != nil {
		cmd.Process.Kill()
		cmd.Wait()
		job.close()
		return nil, fmt.Errorf("child: put the command into a job: %w", err)
	}
	child := &Child{
		process: cmd.Process, job: job, wake: make(chan struct{}, 1), done: make(chan struct{}),
		until: d,
	}
	go child.supervise(cmd)
	return child, nil
}

func (c *Child) supervise(cmd *exec.Cmd) {
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		cmd.Wait()
	}()
	for running := true; running; {
		c.mu.Lock()
		left, stop := c.until.remaining(), c.stop
		c.mu.Unlock()
		if !c.result.Killed && (stop || left <= 0) {
			c.result.Killed, c.result.Expired = true, !stop
			c.job.kill(c.process)
		}
		select {
		case <-exited:
			running = false
		case <-c.wake:
		case <-time.After(min(max(left, time.Millisecond), wallCheck)):
		}
	}
	c.result.ExitCode = cmd.ProcessState.ExitCode()
	c.job.close() // kills what the command left behind
	close(c.done)
}

// Extend lets the command run until then, which has to carry a monotonic reading. It replaces the
// time given before, unless that has passed already. It never blocks.
func (c *Child) Extend(until time.Time) {
	c.mu.Lock()
	c.until = newDeadline(until)
	c.mu.Unlock()
	c.poke()
}

// Stop kills the command: there is no way to ask.
func (c *Child) Stop() {
	c.mu.Lock()
	c.stop = true
	c.mu.Unlock()
	c.poke()
}

func (c *Child) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Signal knows [os.Kill] alone. The error is [os.ErrProcessDone] if the command has ended.
func (c *Child) Signal(sig os.Signal) error {
	select {
	case <-c.done:
		return os.ErrProcessDone
	default:
	}
	if sig != os.Kill {
		return fmt.Errorf("child: signal %v: %w", sig, errors.ErrUnsupported)
	}
	c.job.kill(c.process)
	return nil
}

// Done returns a channel that closes when the command has ended, and on Windows its descendants
// have been told to.
func (c *Child) Done() <-chan struct{} { return c.done }

// Result waits for Done and says what became of the command.
func (c *Child) Result() Result {
	<-c.done
	return c.result
}

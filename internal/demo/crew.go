package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// A crew is the worker processes, and a log of all that they have said.
type crew struct {
	url string
	say *narrator

	mu      sync.Mutex
	members map[string]*member
	log     []event
	changed chan struct{} // closed and replaced when log grows
	readers sync.WaitGroup
}

type member struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ends  bool // it has been told to end
}

// An event is a line with who said it and when it came in.
type event struct {
	line
	who      string
	at       time.Time
	expected bool // of exited: the worker had been told to end
}

func newCrew(url string, say *narrator) *crew {
	return &crew{url: url, say: say, members: make(map[string]*member), changed: make(chan struct{})}
}

// drivers are the crew and its database drivers: two of lib/pq, one of pgx.
var drivers = map[string]string{"worker-1": "postgres", "worker-2": "pgx", "worker-3": "postgres"}

// hire starts a worker: this program again, in its other role.
func (c *crew) hire(name string) error {
	driver := drivers[name]
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.Command(self, "worker", name, driver)
	cmd.Env = append(os.Environ(), "DATABASE_URL="+c.url)
	cmd.Stderr = os.Stderr
	detach(cmd)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	c.say.line(name, "starts: process %d, driver %q", cmd.Process.Pid, driver)
	m := &member{cmd: cmd, stdin: stdin}
	c.mu.Lock()
	c.members[name] = m
	c.mu.Unlock()
	c.readers.Go(func() { c.read(name, m, stdout) })
	return nil
}

// read logs what a worker says until it is gone.
func (c *crew) read(name string, m *member, stdout io.Reader) {
	lines := json.NewDecoder(stdout)
	for {
		var l line
		if err := lines.Decode(&l); err != nil {
			break // the end, or a line cut off by kill -9
		}
		c.add(event{line: l, who: name, at: time.Now()})
	}
	_ = m.cmd.Wait() // what it says is in ProcessState
	c.mu.Lock()
	expected := m.ends
	c.mu.Unlock()
	c.add(event{
		line: line{Kind: exited, Cause: m.cmd.ProcessState.String()},
		who:  name, at: time.Now(), expected: expected,
	})
}

func (c *crew) add(e event) {
	c.say.event(e)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = append(c.log, e)
	close(c.changed)
	c.changed = make(chan struct{})
}

// mark is the place in the log where the next event will be.
func (c *crew) mark() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.log)
}

// errNever says that what was waited for did not happen. It is far longer than anything promised.
var errNever = errors.New("it did not happen in 20 s")

const patience = 20 * time.Second

// await returns the first event since the mark that fits.
func (c *crew) await(ctx context.Context, since int, fits func(event) bool) (event, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errNever)
	defer cancel()
	for {
		c.mu.Lock()
		log, changed := c.log[since:], c.changed
		since = len(c.log)
		var ended error
		for _, e := range log {
			if fits(e) {
				c.mu.Unlock()
				return e, nil
			}
			if e.Kind == exited && !e.expected {
				ended = fmt.Errorf("%s ended by itself: %s", e.who, e.Cause)
			}
		}
		c.mu.Unlock()
		if ended != nil {
			return event{}, ended
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return event{}, context.Cause(ctx)
		}
	}
}

// count is how many events of a kind there were since the mark.
func (c *crew) count(since int, kind string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, e := range c.log[since:] {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// signal sends a signal to a worker. One that ends it is no surprise then.
func (c *crew) signal(name string, sig syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[name]
	if sig == sigTerm || sig == sigKill {
		m.ends = true
	}
	if err := m.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("signal %s: %w", name, err)
	}
	return nil
}

// command writes a line to a worker's standard input.
func (c *crew) command(name, text string) error {
	c.mu.Lock()
	stdin := c.members[name].stdin
	c.mu.Unlock()
	if _, err := io.WriteString(stdin, text+"\n"); err != nil {
		return fmt.Errorf("command %s: %w", name, err)
	}
	return nil
}

// dismiss ends all workers, by the end of their input and soon by kill -9, and waits for their end.
func (c *crew) dismiss() {
	c.mu.Lock()
	for _, m := range c.members {
		m.ends = true
		_ = m.cmd.Process.Signal(sigCont)
		_ = m.stdin.Close()
	}
	c.mu.Unlock()
	timer := time.AfterFunc(5*time.Second, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, m := range c.members {
			_ = m.cmd.Process.Kill()
		}
	})
	defer timer.Stop()
	c.readers.Wait()
}

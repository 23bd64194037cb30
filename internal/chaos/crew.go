//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pgleader/pgleader/internal/chaos/check"
	"github.com/pgleader/pgleader/internal/pgtest"
)

// A member is one place in the crew of a history: one process after another behind its own proxy.
type member struct {
	history *history
	name    string
	order   order
	proxy   *pgtest.Proxy

	mu      sync.Mutex
	life    int
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	gone    chan struct{}
	stopped time.Time // since when the process is stopped
	ending  bool      // it was told to end, or killed
}

// start runs the next incarnation.
func (m *member) start() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.life++
	o := m.order
	o.Worker = fmt.Sprintf("%s.%d", m.name, m.life)
	// The database's part of a value is only to be unique.
	o.First = int64(m.life)<<32 + rand.Int64N(1<<31)
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	cmd := exec.Command(m.history.self)
	cmd.Env = append(os.Environ(), orderEnv+"="+string(text), "GOMAXPROCS=2")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a ^C is the parent's affair
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	m.cmd, m.stdin, m.gone, m.ending = cmd, stdin, make(chan struct{}), false
	go m.read(cmd, o.Worker, stdout, m.gone)
	return nil
}

// read takes the worker's story down until the process is gone.
func (m *member) read(cmd *exec.Cmd, worker string, stdout io.Reader, gone chan struct{}) {
	defer close(gone)
	lines := bufio.NewReader(stdout)
	for {
		text, err := lines.ReadString('\n')
		if err != nil {
			break // a line that kill -9 cut off is no line
		}
		var r check.Record
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			m.history.fail(fmt.Sprintf("%s said %q", worker, text))
			continue
		}
		r.Worker = worker
		m.history.record(r)
	}
	err := cmd.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.ending {
		m.history.fail(fmt.Sprintf("%s ended by itself: %v", worker, err))
	}
}

func (m *member) worker() string { return fmt.Sprintf("%s.%d", m.name, m.life) }

func (m *member) kill() {
	m.mu.Lock()
	m.ending = true
	gone := m.gone
	_ = m.cmd.Process.Kill()
	m.mu.Unlock()
	<-gone
}

// terminate asks the process to end, as an orchestrator does, and reports whether it did.
func (m *member) terminate(patience time.Duration) bool {
	m.mu.Lock()
	m.ending = true
	gone := m.gone
	_ = m.cmd.Process.Signal(syscall.SIGTERM)
	m.mu.Unlock()
	select {
	case <-gone:
		return true
	case <-time.After(patience):
		m.kill()
		return false
	}
}

func (m *member) stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopped = time.Now()
	_ = m.cmd.Process.Signal(syscall.SIGSTOP)
}

func (m *member) goOn() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped.IsZero() {
		return
	}
	from := m.stopped
	m.stopped = time.Time{}
	_ = m.cmd.Process.Signal(syscall.SIGCONT)
	m.history.pause(m.worker(), from, time.Now())
}

func (m *member) command(name string, d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	// A process that is gone needs no command.
	_, _ = fmt.Fprintf(m.stdin, "%s %d\n", name, d.Milliseconds())
}

// application names the worker's connections, to tell the database's sessions apart.
func application(url, name string) string {
	sep := "?"
	if strings.Contains(url, "?") {
		sep = "&"
	}
	return url + sep + "application_name=" + name
}

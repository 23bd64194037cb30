package contract_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// processEnv makes the test binary one of the programs below: a process of its own, which can be
// killed or stopped.
const processEnv = "PGLEADER_TEST_PROCESS"

// An order tells such a process what to do.
type order struct {
	Program    string // a key of programs
	Driver     string
	URL        string
	DirectURL  string // past a pooler, for what needs a session
	Job        string
	Holder     string
	TTL        time.Duration
	RetryEvery time.Duration
	MaxConns   int
}

// process is the parent's end of such a process. They talk in lines.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines chan string
	done  chan struct{} // closed when the process has ended
}

// says waits for the process's next line, which must begin so, and returns the rest of it.
func (p *process) says(t *testing.T, begin string) string {
	t.Helper()
	line := receive(t, "the process says "+begin, p.lines)
	rest, ok := strings.CutPrefix(line, begin)
	if !ok {
		t.Fatalf("the process says %q, want %q", line, begin)
	}
	return strings.TrimSpace(rest)
}

func (p *process) tell(t *testing.T, line string) {
	t.Helper()
	if _, err := fmt.Fprintln(p.stdin, line); err != nil {
		t.Fatal(err)
	}
}

func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// exits waits for the end of the process, which must be one of its own will.
func (p *process) exits(t *testing.T) {
	t.Helper()
	receive(t, "the process ends", p.done)
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the process ended with %v", p.cmd.ProcessState)
	}
}

// start starts a process, which is killed when the test ends, and ends by itself if this process
// does.
func start(t *testing.T, o order, env ...string) *process {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{lines: make(chan string, 1000), done: make(chan struct{})}
	p.cmd = exec.CommandContext(context.Background(), self)
	p.cmd.Env = append(append(os.Environ(), processEnv+"="+string(text)), env...)
	p.cmd.Stderr = os.Stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			p.lines <- lines.Text()
		}
		_ = p.cmd.Wait() // its exit status is in ProcessState
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.done
	})
	return p
}

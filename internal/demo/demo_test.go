//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/pgleader/pgleader/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// slow is far more than the demo may take, for machines that do a lot besides.
const slow = 3 * time.Minute

func TestDemoKeepsEveryPromise(t *testing.T) {
	t.Parallel()
	r := start(t)
	code, out, errs := r.finish(t)
	t.Logf("%s\n%s", out, errs)
	mustBeGone(t, out)
	if code != 0 {
		t.Errorf("exit status %d, want 0", code)
	}
	if n := len(regexp.MustCompile(`(?m) ok$`).FindAllString(out, -1)); n != 11 {
		t.Errorf("%d rows of the table are ok, want 11", n)
	}
	for _, want := range []string{
		"kill -9 the leader: another leads", "ErrLost", "11 promises, all kept", "attempt 2",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q", want)
		}
	}
	if strings.Contains(out, "BROKEN") {
		t.Error("a promise is broken")
	}
	for line := range strings.Lines(out) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 100 {
			t.Errorf("%d columns, want at most 100: %s", n, line)
		}
	}
}

func TestInterruptEndsTheWorkers(t *testing.T) {
	t.Parallel()
	r := start(t, "PGLEADER_POSTGRES="+pgtest.Shared(t).URL)
	r.until(t, "leads, under token 1")
	r.signal(t, syscall.SIGINT)
	code, _, errs := r.finish(t) // which waits for the workers too
	if code != 1 || !strings.Contains(errs, "demo: error: interrupted") {
		t.Errorf("exit status %d and %q, want 1 and to be told of the interrupt", code, errs)
	}
}

func TestKilledDemoTakesItsStoppedWorkerAlong(t *testing.T) {
	t.Parallel()
	r := start(t, "PGLEADER_POSTGRES="+pgtest.Shared(t).URL)
	r.until(t, "stops worker-")
	r.signal(t, syscall.SIGKILL)
	r.finish(t)
}

func TestWithoutPostgresItSaysWhatToDo(t *testing.T) {
	t.Parallel()
	r := start(t, "PGLEADER_POSTGRES=sqlite")
	code, _, errs := r.finish(t)
	if code != 1 || !strings.HasPrefix(errs, "demo: error: ") || !strings.Contains(errs, `"local"`) {
		t.Errorf("exit status %d and %q, want 1 and the values of PGLEADER_POSTGRES", code, errs)
	}
}

// mustBeGone waits until the server that the output names accepts no more connections.
func mustBeGone(t *testing.T, out string) {
	t.Helper()
	found := regexp.MustCompile(`on (127\.0\.0\.1:\d+)`).FindStringSubmatch(out)
	if found == nil {
		return // not the demo's own server
	}
	dialer := net.Dialer{Timeout: time.Second}
	deadline := time.Now().Add(slow)
	for {
		conn, err := dialer.DialContext(t.Context(), "tcp", found[1])
		if err != nil {
			return
		}
		_ = conn.Close()
		if time.Now().After(deadline) {
			t.Fatalf("the server on %s is still there", found[1])
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// A running demo. Its workers share its standard error, so that Wait returns only when all of them
// are gone.
type running struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
	out   bytes.Buffer
	errs  bytes.Buffer
}

func start(t *testing.T, env ...string) *running {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "demo")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r := &running{cmd: exec.CommandContext(context.Background(), binary)}
	r.cmd.Env = append(os.Environ(), env...)
	r.cmd.Stderr = &r.errs
	stdout, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.lines = bufio.NewScanner(stdout)
	timer := time.AfterFunc(slow, func() { _ = r.cmd.Process.Signal(syscall.SIGTERM) })
	t.Cleanup(func() { timer.Stop() })
	return r
}

// until reads the output to a line that contains the text.
func (r *running) until(t *testing.T, text string) {
	t.Helper()
	for r.lines.Scan() {
		r.out.WriteString(r.lines.Text() + "\n")
		if strings.Contains(r.lines.Text(), text) {
			return
		}
	}
	_ = r.cmd.Wait()
	t.Fatalf("the demo ended and never said %q:\n%s%s", text, &r.out, &r.errs)
}

func (r *running) signal(t *testing.T, sig os.Signal) {
	t.Helper()
	if err := r.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

func (r *running) finish(t *testing.T) (code int, out, errs string) {
	t.Helper()
	for r.lines.Scan() {
		r.out.WriteString(r.lines.Text() + "\n")
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = r.cmd.Wait() // what it says is in ProcessState
	}()
	select {
	case <-gone:
	case <-time.After(slow):
		t.Fatalf("the demo has ended, but not its workers:\n%s", &r.out)
	}
	return r.cmd.ProcessState.ExitCode(), r.out.String(), r.errs.String()
}

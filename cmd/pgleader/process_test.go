//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	testTTL  = 3 * time.Second
	patience = time.Minute
)

// An instance is a running pgleader.
type instance struct {
	*exec.Cmd
	errs buffer
	gone chan struct{}
}

// launch starts pgleader, as on one host of several.
func launch(t *testing.T, url string, args ...string) *instance {
	t.Helper()
	return launchWith(t, url, nil, args...)
}

// launchWith is launch with more in the environment.
func launchWith(t *testing.T, url string, env []string, args ...string) *instance {
	t.Helper()
	i := &instance{Cmd: exec.Command(binary(t), args...), gone: make(chan struct{})}
	i.Env = append(append(os.Environ(), "DATABASE_URL="+url), env...)
	i.Stderr = &i.errs
	i.WaitDelay = patience
	if err := i.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(i.gone)
		_ = i.Wait() // what it says is in ProcessState
	}()
	t.Cleanup(func() {
		_ = i.Process.Signal(syscall.SIGCONT)
		_ = i.Process.Signal(syscall.SIGKILL)
		<-i.gone
		if t.Failed() {
			t.Logf("pgleader %s, process %d:\n%s", strings.Join(args, " "), i.Process.Pid, &i.errs)
		}
	})
	return i
}

var built struct {
	once sync.Once
	path string
	err  error
}

// binary builds pgleader as its users have it. The test binary could be it too, but takes far
// longer to start.
func binary(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		dir, err := os.MkdirTemp("", "pgleader-test-")
		if err != nil {
			built.err = err
			return
		}
		cleanUp = append(cleanUp, func() { _ = os.RemoveAll(dir) })
		built.path = filepath.Join(dir, "pgleader")
		if out, err := exec.Command("go", "build", "-o", built.path, ".").CombinedOutput(); err != nil {
			built.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}

func (i *instance) send(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := i.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// exit waits for the end and returns the exit status.
func (i *instance) exit(t *testing.T) int {
	t.Helper()
	select {
	case <-i.gone:
	case <-time.After(patience):
		t.Fatalf("pgleader has not ended: %s", &i.errs)
	}
	return i.ProcessState.ExitCode()
}

// says waits until the instance has said so.
func (i *instance) says(t *testing.T, text string) {
	t.Helper()
	eventually(t, "pgleader to say "+strconv.Quote(text), func() bool {
		return strings.Contains(i.errs.String(), text)
	})
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", patience, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// A buffer collects what a process writes.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// A diary is a directory with one file for each term, into which its command writes the time again
// and again.
type diary string

// keep is the arguments of a pgleader whose command keeps the diary, in a grandchild that ignores
// SIGTERM.
func (d diary) keep(flags ...string) []string {
	const script = `trap '' TERM
		while :; do date +%s%N; sleep 0.02; done >> "$0/$PGLEADER_TOKEN" & wait`
	quoted := "'" + strings.ReplaceAll(script, "'", `'\''`) + "'"
	args := append([]string{"run", "mail-worker", "--ttl", testTTL.String()}, flags...)
	return append(args, "--", "sh", "-c",
		"trap 'exit 0' TERM; sh -c "+quoted+" "+string(d)+" & wait")
}

// times returns when the command of a term wrote.
func (d diary) times(t *testing.T, token string) []time.Time {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(string(d), token))
	if err != nil {
		return nil
	}
	var times []time.Time
	for line := range strings.Lines(string(text)) {
		ns, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil || !strings.HasSuffix(line, "\n") {
			continue // cut off by the kill
		}
		times = append(times, time.Unix(0, ns))
	}
	return times
}

// began reports whether the command of a term has written.
func (d diary) began(t *testing.T, token string) bool {
	t.Helper()
	return len(d.times(t, token)) > 0
}

// written waits until the command of a term has written a few times.
func (d diary) written(t *testing.T, token string) {
	t.Helper()
	n := len(d.times(t, token))
	eventually(t, "the command of token "+token, func() bool { return len(d.times(t, token)) >= n+3 })
}

// newest returns the greatest token that has written.
func (d diary) newest(t *testing.T) string {
	t.Helper()
	files, err := os.ReadDir(string(d))
	if err != nil || len(files) == 0 {
		t.Fatal("nobody has written: ", err)
	}
	return files[len(files)-1].Name() // in the order of their names, of one digit
}

// apart checks that no command wrote while another term's did, and says how far apart they were.
func (d diary) apart(t *testing.T) {
	t.Helper()
	files, err := os.ReadDir(string(d))
	if err != nil {
		t.Fatal(err)
	}
	type span struct {
		token       string
		first, last time.Time
	}
	var spans []span
	for _, f := range files {
		if times := d.times(t, f.Name()); len(times) > 0 {
			first := slices.MinFunc(times, time.Time.Compare)
			spans = append(spans, span{f.Name(), first, slices.MaxFunc(times, time.Time.Compare)})
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return a.first.Compare(b.first) })
	for i := 1; i < len(spans); i++ {
		gap := spans[i].first.Sub(spans[i-1].last)
		before, after := spans[i-1].token, spans[i].token
		t.Logf("token %s ended %v before token %s began", before, gap.Round(time.Millisecond), after)
		if gap <= 0 {
			t.Errorf("the commands of tokens %s and %s ran at once for %v", before, after, -gap)
		}
	}
	if len(spans) < 2 {
		t.Errorf("%d terms, want at least 2", len(spans))
	}
}

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
)

// start runs pgleader inside the test, and returns its output, line by line, and its exit status.
func start(ctx context.Context, t *testing.T, args ...string) (
	lines <-chan string, status <-chan int, stderr string,
) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr = filepath.Join(t.TempDir(), "stderr")
	errFile, err := os.Create(stderr)
	if err != nil {
		t.Fatal(err)
	}
	out, exit := make(chan string, 1000), make(chan int, 1)
	go func() {
		exit <- run(ctx, args, os.Stdin, write, errFile)
		write.Close()
		errFile.Close()
	}()
	go func() {
		defer close(out)
		defer read.Close()
		for scanner := bufio.NewScanner(read); scanner.Scan(); {
			out <- scanner.Text()
		}
	}()
	return out, exit, stderr
}

// next waits for the next line with a text.
func next(t *testing.T, lines <-chan string, text string) string {
	t.Helper()
	timeout := time.After(30 * time.Second)
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				t.Fatalf("it ended without %q", text)
			}
			if strings.Contains(line, text) {
				return line
			}
		case <-timeout:
			t.Fatalf("never printed %q", text)
		}
	}
}

const ledForAnHour = `
	INSERT INTO leader_lease
	VALUES ('nightly-report', 'web-1', 7, now(), now(), now() + interval '1h')`

func TestStatusWatchesUntilInterrupted(t *testing.T) {
	t.Parallel()
	rawURL := pgtest.NewURL(t)
	ctx, interrupt := context.WithCancel(t.Context())
	lines, status, _ := start(ctx, t, "status", "nightly-report", "--watch", "--database-url", rawURL)
	if line := next(t, lines, "nightly-report"); !strings.Contains(line, "never led") {
		t.Fatalf("first %q", line)
	}
	if err := execute(rawURL, ledForAnHour); err != nil {
		t.Fatal(err)
	}
	if line := next(t, lines, "web-1"); strings.Contains(line, "\x1b") {
		t.Errorf("moves the cursor of a file: %q", line)
	}
	interrupt()
	if code := <-status; code != 0 {
		t.Errorf("exit status %d", code)
	}
}

func TestStatusWatchesThroughOutage(t *testing.T) {
	t.Parallel()
	rawURL := pgtest.NewURL(t)
	proxy := pgtest.NewProxy(t, rawURL)
	ctx, interrupt := context.WithCancel(t.Context())
	lines, status, stderr := start(ctx, t, "status", "--json", "--watch", "--database-url", proxy.URL)
	if line := next(t, lines, "["); line != "[]" {
		t.Fatalf("first %q", line)
	}
	proxy.Cut()
	waitForText(t, stderr, "pgleader: error: ")
	if err := execute(rawURL, ledForAnHour); err != nil {
		t.Fatal(err)
	}
	if err := proxy.Restore(); err != nil {
		t.Fatal(err)
	}
	var leases []leaseJSON
	err := json.Unmarshal([]byte(next(t, lines, "web-1")), &leases)
	if err != nil || len(leases) != 1 || leases[0].State != "led" {
		t.Errorf("after the outage: %+v, %v", leases, err)
	}
	interrupt()
	if code := <-status; code != 0 {
		t.Errorf("exit status %d", code)
	}
}

func TestStatusWatchFailsAtOnceWhereItCannotBegin(t *testing.T) {
	t.Parallel()
	empty := pgtest.NewEmptyURL(t)
	_, status, stderr := start(t.Context(), t, "status", "--watch", "--database-url", empty)
	if code := <-status; code != exitFailed {
		t.Errorf("exit status %d, want %d", code, exitFailed)
	}
	waitForText(t, stderr, "pgleader: hint: run 'pgleader migrate up'")
}

func waitForText(t *testing.T, file, want string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%q never became part of %q", want, text)
		}
	}
}

// Package examples has complete programs, one feature each. Every one reads DATABASE_URL and ends
// by itself, or at ^C.
package examples

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/migrations"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestOutput runs every example that says in its last comment what it prints.
func TestOutput(t *testing.T) {
	mains, err := filepath.Glob("*/main.go")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, file := range mains {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, comment, ok := strings.Cut(string(text), "\n// Output:\n")
		if !ok {
			continue
		}
		ran++
		want := strings.ReplaceAll("\n"+comment, "\n// ", "\n")[1:]
		t.Run(filepath.Dir(file), func(t *testing.T) {
			t.Parallel()
			if got := output(t, filepath.Dir(file), pgtest.NewEmptyURL(t)); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
	if ran != 5 {
		t.Errorf("ran %d examples, want 5", ran)
	}
}

func TestTickerSkipsWhileAnotherLeads(t *testing.T) {
	t.Parallel()
	url := pgtest.NewEmptyURL(t)
	lead(t, url, "cleanup")
	want := `tick 1 skipped: another process leads
tick 2 skipped: another process leads
tick 3 skipped: another process leads
`
	if got := output(t, "ticker", url); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestRunLeadsUntilItIsTerminated(t *testing.T) {
	t.Parallel()
	url := pgtest.NewEmptyURL(t)
	for token := 1; token <= 2; token++ { // the second needs no TTL: the first has resigned
		cmd, stdout, errs := start(t, "run", url)
		line, err := bufio.NewReader(stdout).ReadString('\n')
		if want := fmt.Sprintf("leading under token %d\n", token); line != want {
			t.Fatalf("got %q (%v), want %q; %s", line, err, want, errs)
		}
		terminate(t, cmd, errs)
	}
}

func TestRunEndsWhileItWaitsToo(t *testing.T) {
	t.Parallel()
	url := pgtest.NewEmptyURL(t)
	lead(t, url, "nightly-report")
	cmd, _, errs := start(t, "run", url)
	errs.wait(t, "waiting, held by")
	terminate(t, cmd, errs)
}

// A report that is cut off in its middle is written by the next leader: one row a night, and a row
// for each night that is done.
func TestNightlyReportIsWrittenOnceANightAlsoAfterACrash(t *testing.T) {
	t.Parallel()
	url := pgtest.NewEmptyURL(t)
	first, stdout, errs := start(t, "nightly-report", url, "-crash", "2")
	lines := bufio.NewScanner(stdout)
	lines.Scan() // started
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "report ") {
		t.Fatalf("got %q, want a report; %s", lines.Text(), errs)
	}
	second, secondOut, secondErrs := start(t, "nightly-report", url)
	third, thirdOut, thirdErrs := start(t, "nightly-report", url)
	reports := make(chan string, 1000)
	for _, out := range []io.Reader{secondOut, thirdOut} {
		lines := bufio.NewScanner(out)
		if !lines.Scan() || !strings.HasPrefix(lines.Text(), "started ") {
			t.Fatalf("got %q, want started; %s%s", lines.Text(), secondErrs, thirdErrs)
		}
		go func() {
			for lines.Scan() {
				reports <- lines.Text()
			}
		}()
	}
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "crash ") {
	}
	_, night, ok := strings.Cut(lines.Text(), " ")
	if err := first.Wait(); err == nil || !ok {
		t.Fatalf("%q, exit %v; want a crash; %s", lines.Text(), err, errs)
	}
	if got, want := <-reports, "report "+night+" attempt 2"; got != want {
		t.Errorf("the next report is %q, want %q", got, want)
	}
	for range 3 {
		<-reports
	}
	terminate(t, second, secondErrs)
	terminate(t, third, thirdErrs)

	db := pgtest.Open(t, "pgx", url)
	var rows, nights, done, both int
	err := db.QueryRowContext(t.Context(), `
		SELECT (SELECT count(*) FROM report), (SELECT count(DISTINCT night) FROM report),
		       (SELECT count(*) FROM leader_slot WHERE state = 'done'),
		       (SELECT count(*) FROM leader_slot JOIN report ON night = slot WHERE state = 'done')`).
		Scan(&rows, &nights, &done, &both)
	if err != nil || rows < 5 || rows != nights || rows != done || rows != both {
		t.Errorf("%d rows for %d nights, %d slots done, %d of them with a row (%v)",
			rows, nights, done, both, err)
	}
}

// lead makes the test itself the leader until it ends.
func lead(t *testing.T, url, job string) {
	t.Helper()
	db := pgtest.Open(t, "pgx", url)
	if err := migrations.Up(context.Background(), db); err != nil {
		t.Fatal(err)
	}
	elector, err := leader.New(db, leader.Config{})
	if err != nil {
		t.Fatal(err)
	}
	term, err := elector.Campaign(context.Background(), job)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := term.Resign(); err != nil {
			t.Error(err)
		}
	})
}

// output runs an example to its end and returns what it printed.
func output(t *testing.T, name, url string) string {
	t.Helper()
	cmd, stdout, errs := start(t, name, url)
	got, err := io.ReadAll(stdout)
	if err := errorOf(err, cmd.Wait()); err != nil {
		t.Fatalf("%v; %s", err, errs)
	}
	return string(got)
}

// start builds an example and starts it.
func start(t *testing.T, name, url string, args ...string) (*exec.Cmd, io.Reader, *buffer) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), name)
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./"+name)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(os.Environ(), "DATABASE_URL="+url)
	errs := &buffer{}
	cmd.Stderr = errs
	stdout, err := cmd.StdoutPipe()
	if err := errorOf(err, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	return cmd, stdout, errs
}

func terminate(t *testing.T, cmd *exec.Cmd, errs *buffer) {
	t.Helper()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v, want exit status 0; %s", err, errs)
	}
}

func errorOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// A buffer collects what a running example writes.
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

// wait polls until the text has been written.
func (b *buffer) wait(t *testing.T, text string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !strings.Contains(b.String(), text) {
		if time.Now().After(deadline) {
			t.Fatalf("never wrote %q: %s", text, b)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// The last act: three instances of examples/nightly-report, where a night lasts a second, and one
// that dies in the middle of a report.
const (
	reporterTTL  = 3 * time.Second        // as in examples/nightly-report
	reporterLook = 375 * time.Millisecond // its RetryEvery, and the jitter
	moreNights   = 3                      // to be reported after the crash
)

// A press is the reporters and what they say.
type press struct {
	binary  string
	url     string
	said    chan saying
	cmds    []*exec.Cmd
	readers sync.WaitGroup
}

// A saying is a line of a reporter's: "started HOLDER", "report NIGHT attempt N", "crash NIGHT".
type saying struct{ who, text string }

func (t *teller) reports(ctx context.Context, url string) (err error) {
	t.say.scene("6. The nightly report, one night a second: kill -9 in the middle of a report")
	p, err := newPress(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()

	if err := p.hire(t.say, "reporter-1", "-crash", "2"); err != nil {
		return err
	}
	if _, err := t.hear(ctx, p, "report "); err != nil { // it leads
		return err
	}
	for _, who := range []string{"reporter-2", "reporter-3"} {
		if err := p.hire(t.say, who); err != nil {
			return err
		}
	}
	crash, err := t.hear(ctx, p, "crash ")
	if err != nil {
		return err
	}
	start, err := t.now(ctx)
	if err != nil {
		return err
	}
	night := strings.TrimPrefix(crash, "crash ")
	const what = "kill -9 amid a report: another runs it again"
	if _, err = t.hear(ctx, p, "report "+night+" attempt 2"); err != nil {
		t.verdict.never(what, reporterTTL+reporterLook, afterTTL)
		return err
	}
	var began time.Time
	err = t.pool.QueryRowContext(ctx,
		`SELECT started_at FROM leader_slot WHERE slot = $1::timestamptz`, night).Scan(&began)
	if err != nil {
		return err
	}
	t.verdict.within(what, began.Sub(start), reporterTTL+reporterLook, afterTTL)
	for range moreNights {
		if _, err := t.hear(ctx, p, "report "); err != nil {
			return err
		}
	}
	if err := p.close(); err != nil {
		return err
	}
	return t.count(ctx)
}

// count compares the reports with the slots.
func (t *teller) count(ctx context.Context) error {
	var rows, nights, done, both int
	err := t.pool.QueryRowContext(ctx, `
		SELECT (SELECT count(*) FROM report),
		       (SELECT count(DISTINCT night) FROM report),
		       (SELECT count(*) FROM leader_slot WHERE state = 'done'),
		       (SELECT count(*) FROM leader_slot JOIN report ON night = slot WHERE state = 'done')`).
		Scan(&rows, &nights, &done, &both)
	if err != nil {
		return err
	}
	t.say.line("demo", "counts %d reports of %d nights, and %d slots that are done",
		rows, nights, done)
	t.verdict.holds(fmt.Sprintf("%d nights: their reports", nights), "-", "exactly one each",
		rows > moreNights && rows == nights && rows == done && rows == both)
	return nil
}

// newPress builds the example.
func newPress(ctx context.Context, url string) (*press, error) {
	dir, err := os.MkdirTemp("", "pgleader-demo-")
	if err != nil {
		return nil, err
	}
	p := &press{binary: filepath.Join(dir, "nightly-report"), url: url, said: make(chan saying, 1000)}
	build := exec.CommandContext(ctx, "go", "build", "-o", p.binary,
		"github.com/pgleader/pgleader/examples/nightly-report")
	if out, err := build.CombinedOutput(); err != nil {
		err = fmt.Errorf("build examples/nightly-report: %w\n%s", err, out)
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return p, nil
}

// hire starts a reporter. It ends by itself after so many nights, should the demo be killed.
func (p *press) hire(say *narrator, who string, args ...string) error {
	cmd := exec.Command(p.binary, append(args, "-nights", "60")...)
	cmd.Env = append(os.Environ(), "DATABASE_URL="+p.url)
	detach(cmd)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", who, err)
	}
	say.line(who, "starts: process %d", cmd.Process.Pid)
	p.cmds = append(p.cmds, cmd)
	p.readers.Go(func() { p.read(who, stdout) })
	return nil
}

func (p *press) read(who string, stdout io.Reader) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		p.said <- saying{who, lines.Text()}
	}
}

// hear waits for a line that begins so.
func (t *teller) hear(ctx context.Context, p *press, begins string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errNever)
	defer cancel()
	for {
		select {
		case s := <-p.said:
			if !strings.HasPrefix(s.text, "started ") {
				t.say.line(s.who, "%s", s.text)
			}
			if strings.HasPrefix(s.text, begins) {
				return s.text, nil
			}
		case <-ctx.Done():
			return "", fmt.Errorf("wait for %q: %w", begins, context.Cause(ctx))
		}
	}
}

// close ends the reporters and waits until they are gone.
func (p *press) close() error {
	for _, cmd := range p.cmds {
		_ = cmd.Process.Signal(sigTerm)
	}
	timer := time.AfterFunc(5*time.Second, func() {
		for _, cmd := range p.cmds {
			_ = cmd.Process.Kill()
		}
	})
	defer timer.Stop()
	p.readers.Wait()
	for _, cmd := range p.cmds {
		_ = cmd.Wait() // one of them has been killed
	}
	p.cmds = nil
	return os.RemoveAll(filepath.Dir(p.binary))
}

//go:build unix

package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
)

func exists(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}

// The crontabs of three hosts call at once, for a hundred slots.
func TestThreeHostsRunHundredSlotsOnceEach(t *testing.T) {
	t.Parallel()
	url := pgtest.NewURL(t)
	file := filepath.Join(t.TempDir(), "runs")
	day := time.Date(2026, 1, 1, 2, 0, 0, 0, time.UTC)
	for n := range 100 {
		slot := day.AddDate(0, 0, n).Format(time.RFC3339)
		hosts := make([]*instance, 3)
		for h := range hosts {
			hosts[h] = launch(t, url, "slot", "report", "--slot", slot, "--",
				"sh", "-c", `echo "$PGLEADER_SLOT" >> "$0"`, file)
		}
		for h, host := range hosts {
			if code := host.exit(t); code != 0 {
				t.Fatalf("slot %s, host %d: exit status %d, want 0: %s", slot, h, code, &host.errs)
			}
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	runs := make(map[string]int)
	for line := range strings.Lines(string(text)) {
		runs[strings.TrimSpace(line)]++
	}
	for n := range 100 {
		if slot := day.AddDate(0, 0, n).Format(time.RFC3339); runs[slot] != 1 {
			t.Errorf("slot %s was run %d times", slot, runs[slot])
		}
	}
}

// One host dies in the middle of a slot; the one that stands by runs it again.
func TestHostThatStandsByRunsTheSlotOfOneThatDies(t *testing.T) {
	t.Parallel()
	url := pgtest.NewURL(t)
	dir := t.TempDir()
	args := []string{"slot", "report", "--slot", "2026-01-01T02:00:00Z", "--ttl", testTTL.String()}
	first := launch(t, url, append(args, "--", "sh", "-c", `touch "$0/ready"; sleep 300`, dir)...)
	eventually(t, "the first run", func() bool { return exists(dir, "ready") })
	idle := launch(t, url, append(args, "--", "false")...)
	const nothing = "nothing to do for slot 2026-01-01T02:00:00Z, "
	if code := idle.exit(t); code != 0 || !strings.Contains(idle.errs.String(), nothing) {
		t.Errorf("without --stand-by: exit status %d, %s", code, &idle.errs)
	}
	standBy := launch(t, url, append(args, "--stand-by", "--",
		"sh", "-c", `echo "attempt $PGLEADER_ATTEMPT" > "$0/again"`, dir)...)
	standBy.says(t, "waiting, ")
	first.send(t, syscall.SIGKILL)
	if code := standBy.exit(t); code != 0 {
		t.Errorf("exit status %d", code)
	}
	text, err := os.ReadFile(filepath.Join(dir, "again"))
	if err != nil || string(text) != "attempt 2\n" {
		t.Errorf("%q, %v; want the second attempt", text, err)
	}
}

func TestSystemdHearsThatItIsReadyAliveAndStopping(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	address := &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"}
	socket, err := net.ListenUnixgram("unixgram", address)
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	heard := make(chan string, 100)
	go func() {
		b := make([]byte, 1000)
		for {
			n, err := socket.Read(b)
			if err != nil {
				return
			}
			heard <- string(b[:n])
		}
	}()
	hear := func(want string) {
		t.Helper()
		deadline := time.After(patience)
		for {
			select {
			case got := <-heard:
				if got == want {
					return
				}
			case <-deadline:
				t.Fatalf("systemd never heard %s", want)
			}
		}
	}
	url := pgtest.NewURL(t)
	i := launchWith(t, url, []string{
		"NOTIFY_SOCKET=" + filepath.Join(dir, "notify"), fmt.Sprintf("WATCHDOG_USEC=%d", 200_000),
	}, "run", "mail-worker", "--", "sh", "-c", `
		echo "[$NOTIFY_SOCKET$WATCHDOG_USEC]" > "$0/env"
		trap 'exit 0' TERM
		while :; do sleep 0.05; done`, dir)
	hear("READY=1")
	hear("WATCHDOG=1")
	eventually(t, "the command", func() bool { return exists(dir, "env") })
	i.send(t, syscall.SIGTERM)
	hear("STOPPING=1")
	if code := i.exit(t); code != 0 {
		t.Errorf("exit status %d", code)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "env")); err != nil || string(text) != "[]\n" {
		t.Errorf("the command sees %q of systemd's variables (%v), want none", text, err)
	}
}

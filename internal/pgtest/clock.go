package pgtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A Clock is the clock of a server that PrivateWithClock started. It stands beside the machine's,
// which the test's own processes go by.
type Clock struct {
	file string
	as   account
}

// Set makes the server's clock differ from the machine's by offset, in all its processes at once.
func (c *Clock) Set(t testing.TB, offset time.Duration) {
	t.Helper()
	if err := c.set(offset); err != nil {
		t.Fatal(err)
	}
}

func (c *Clock) set(offset time.Duration) error {
	next := c.file + ".next" // a process that reads meanwhile must find all of it
	if err := os.WriteFile(next, fmt.Appendf(nil, "%+.6f\n", offset.Seconds()), 0o600); err != nil {
		return err
	}
	if err := c.as.own(next); err != nil {
		return err
	}
	return os.Rename(next, c.file)
}

// PrivateWithClock is PrivateLocal for a test that sets the server's clock. It is libfaketime that
// tells the server the time; without it the test is skipped.
func PrivateWithClock(t testing.TB) (*Server, *Clock) {
	t.Helper()
	library := fakeTime()
	if library == "" {
		t.Skip("needs libfaketime (Debian: apt install libfaketime)")
	}
	if _, err := findBinaries(); err != nil {
		t.Skip(err)
	}
	s, clock, err := startWithClock(context.Background(), library)
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, s)
	return s, clock
}

func startWithClock(ctx context.Context, library string) (*Server, *Clock, error) {
	l, err := newLocal()
	if err != nil {
		return nil, nil, err
	}
	clock := &Clock{file: filepath.Join(l.dir, "clock"), as: l.as}
	l.env = []string{
		"LD_PRELOAD=" + library, "FAKETIME_TIMESTAMP_FILE=" + clock.file, "FAKETIME_NO_CACHE=1",
		"FAKETIME_DONT_FAKE_MONOTONIC=1",
		"FAKETIME_DISABLE_SHM=1", // every process reads the file by itself
	}
	if err := clock.set(0); err != nil {
		return nil, nil, l.abandon(err)
	}
	s, err := l.run(ctx)
	return s, clock, err
}

// fakeTime is the path of libfaketime, or "".
func fakeTime() string {
	for _, dir := range []string{"/usr/lib/*", "/usr/lib*", "/usr/local/lib"} {
		found, _ := filepath.Glob(dir + "/faketime/libfaketime.so.1")
		if len(found) > 0 {
			return found[0]
		}
	}
	return ""
}

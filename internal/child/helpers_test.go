//go:build unix

package child

import (
	"bufio"
	"encoding/gob"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// stubborn ignores SIGTERM, as its own child does, which writes to a file for as long as it lives.
const stubborn = `
trap '' TERM
sh -c 'while :; do echo >"$0"; sleep 0.01; done' "${STAMPS:-/dev/null}" &
echo ready
while :; do sleep 1; done`

func sh(script string, args ...string) []string {
	return append([]string{"sh", "-c", script}, args...)
}

func start(t *testing.T, c Command, d time.Duration) *Child {
	t.Helper()
	child, err := Start(c, time.Now().Add(d))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Kill(-child.pgid, syscall.SIGKILL)
		child.keeper.Process.Kill()
		<-child.Done()
	})
	return child
}

func result(t *testing.T, c *Child) Result {
	t.Helper()
	select {
	case <-c.Done():
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
	return c.Result()
}

// patience is for a machine that does much else.
const patience = 30 * time.Second

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in %v: %s", patience, what)
		}
	}
}

func assertGroupDead(t *testing.T, pgid int) {
	t.Helper()
	if groupLives(pgid) {
		t.Errorf("something of group %d is alive", pgid)
	}
}

func write(t *testing.T, name, content string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, dir, name string) *os.File {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func state(t *testing.T, pid int) string {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	return strings.Fields(string(stat[strings.LastIndex(string(stat), ")")+1:]))[0]
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

const (
	callerVariable  = "CHILD_TEST_CALLER"
	ttlVariable     = "CHILD_TEST_TTL"
	adopterVariable = "CHILD_TEST_ADOPTER"
	deafVariable    = "CHILD_TEST_DEAF"
)

// A caller is another process that runs a stubborn command and extends its time again and again.
type caller struct {
	cmd               *exec.Cmd
	lines             *bufio.Scanner
	pid, pgid, keeper int
	stamps            string
}

const (
	callerTTL   = 2500 * time.Millisecond // more than slack, else a delay of that much would go unseen
	callerGrace = 200 * time.Millisecond
)

func startCaller(t *testing.T, script string, ttl time.Duration, env ...string) *caller {
	t.Helper()
	c := &caller{cmd: exec.Command(os.Args[0]), stamps: filepath.Join(t.TempDir(), "stamps")}
	c.cmd.Env = append(os.Environ(),
		callerVariable+"="+script, ttlVariable+"="+ttl.String(), "STAMPS="+c.stamps)
	c.cmd.Env = append(c.cmd.Env, env...)
	c.cmd.Stderr = os.Stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.cmd.Process.Kill()
		if c.pid != 0 && c.pid != c.cmd.Process.Pid {
			syscall.Kill(c.pid, syscall.SIGKILL)
		}
		c.cmd.Wait()
		if c.pgid != 0 {
			syscall.Kill(-c.pgid, syscall.SIGKILL)
		}
	})
	c.lines = bufio.NewScanner(out)
	if !c.lines.Scan() {
		t.Fatal("the caller said nothing")
	}
	if _, err := fmt.Sscan(c.lines.Text(), &c.pid, &c.pgid, &c.keeper); err != nil {
		t.Fatal(err)
	}
	eventually(t, "stamps are written", func() bool { return c.lastStamp() != 0 })
	return c
}

// lastStamp is when the command's child was alive for the last time that is known of.
func (c *caller) lastStamp() int64 {
	info, err := os.Stat(c.stamps)
	if err != nil {
		return 0
	}
	return info.ModTime().UnixNano()
}

// result is the last line.
func (c *caller) result() (line string) {
	defer time.AfterFunc(patience, func() { c.cmd.Process.Kill() }).Stop()
	for c.lines.Scan() {
		line = c.lines.Text()
	}
	return line
}

// playCaller prints the numbers of itself, the group and the keeper, then each time that it gives,
// then the result.
func playCaller() {
	ttl, err := time.ParseDuration(os.Getenv(ttlVariable))
	if err != nil {
		panic(err)
	}
	command := Command{Args: sh(os.Getenv(callerVariable)), Grace: callerGrace}
	c, err := Start(command, time.Now().Add(ttl))
	if err != nil {
		panic(err)
	}
	fmt.Println(os.Getpid(), c.pgid, c.keeper.Process.Pid)
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		select {
		case <-c.Done():
			r := c.Result()
			fmt.Println("result", r.ExitCode, r.Expired, r.Killed, r.Err)
			return
		case <-tick.C:
			until := time.Now().Add(ttl)
			fmt.Println(until.UnixNano())
			c.Extend(until)
		}
	}
}

// playDeafKeeper starts the command, and then takes no notice of anything until the caller is dead.
func playDeafKeeper() {
	in := gob.NewDecoder(os.NewFile(3, "control"))
	var s spec
	if err := in.Decode(&s); err != nil {
		panic(err)
	}
	runtime.LockOSThread()
	pgid, err := s.start()
	if err != nil {
		panic(err)
	}
	report{Kind: reportStarted, Value: int32(pgid)}.send(os.NewFile(4, "status"))
	for in.Decode(&order{}) == nil {
	}
	syscall.Kill(-pgid, syscall.SIGKILL)
	os.Exit(0)
}

//go:build unix

package child

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestNothingIsLeftBehind(t *testing.T) {
	// Not parallel: it counts what others would open and start.
	cycle := func() {
		c := start(t, Command{Args: []string{"true"}}, time.Minute)
		if r := result(t, c); r != (Result{}) {
			t.Fatalf("%+v", r)
		}
		missing := Command{Args: []string{"/nonexistent"}}
		if _, err := Start(missing, time.Now().Add(time.Minute)); err == nil {
			t.Fatal("no error")
		}
	}
	cycle()
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	for range 100 {
		cycle()
	}
	eventually(t, "no goroutine more", func() bool { return runtime.NumGoroutine() <= goroutines })
	if n := openFiles(t); n > files {
		t.Errorf("%d open files, before it were %d", n, files)
	}
}

func TestLeftoversDieBeforeDone(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, script string
		grace        time.Duration
		want         Result
		linux        bool
	}{
		{"of the group", "sleep 60 & echo $! >$PIDS; exit 3", time.Minute, Result{ExitCode: 3}, false},
		{
			"that ignore SIGTERM", "trap '' TERM; sleep 60 & echo $! >$PIDS; exit 3", 100 * time.Millisecond,
			Result{ExitCode: 3, Killed: true},
			false,
		},
		{
			"outside the group",
			"setsid sh -c 'echo $$ >$PIDS; exec sleep 60' & until [ -s $PIDS ]; do sleep 0.01; done; exit 3",
			time.Minute,
			Result{ExitCode: 3},
			true,
		},
		{
			"outside the group that ignore SIGTERM",
			`setsid sh -c 'trap "" TERM; echo $$ >$PIDS; sleep 60 & setsid sleep 60; :' &
			until [ -s $PIDS ]; do sleep 0.01; done; exit 3`,
			100 * time.Millisecond,
			Result{ExitCode: 3, Killed: true},
			true,
		},
	} {
		if row.linux && runtime.GOOS != "linux" {
			continue
		}
		out := create(t, t.TempDir(), "out")
		pids := out.Name() + "-pids"
		c := start(t, Command{
			Args: sh(row.script), Grace: row.grace, Stdout: out, Env: append(os.Environ(), "PIDS="+pids),
		}, time.Hour)
		if r := result(t, c); r != row.want {
			t.Errorf("leftovers %s: %+v, want %+v", row.name, r, row.want)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(read(t, pids)))
		if err != nil {
			t.Fatal(err)
		}
		if syscall.Kill(pid, 0) == nil && state(t, pid) != "Z" {
			t.Errorf("leftovers %s: %d is alive", row.name, pid)
		}
		assertGroupDead(t, c.pgid)
	}
}

func TestGrandchildThatHoldsStdoutHoldsNothingUp(t *testing.T) {
	t.Parallel()
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	c := start(t, Command{
		Args: sh("trap '' TERM; sleep 60 & exit 2"), Stdout: w, Stderr: w, Grace: 50 * time.Millisecond,
	}, time.Hour)
	w.Close()
	if r := result(t, c); r.ExitCode != 2 {
		t.Errorf("%+v", r)
	}
	// Nobody has it any more, neither the grandchild nor the keeper.
	out.SetReadDeadline(time.Now().Add(patience))
	if n, err := out.Read(make([]byte, 1)); n != 0 || err == nil || os.IsTimeout(err) {
		t.Errorf("read %d bytes, %v, want the end of the file", n, err)
	}
}

func TestKeeperGivesUpWhatItCannotKill(t *testing.T) {
	// Not parallel: the keeper reaps all children of its process.
	c := start(t, Command{Args: sh("sleep 60")}, time.Minute)
	k := newKeeper(spec{Grace: time.Hour, First: order{time.Now().Add(time.Hour), time.Hour, false}})
	k.pgid = c.pgid
	k.terminated = time.Now()
	if k.step() {
		t.Error("it gives up before it has killed")
	}
	k.killed, k.rounds = time.Now().Add(-giveUpAfter), 1
	if k.step() {
		t.Error("it gives up although it had no time to see the effect")
	}
	k.rounds = giveUpRounds + 1
	if want := (report{Kind: reportEnded, Value: 137, Survivors: true}); !k.step() || k.end != want {
		t.Errorf("it reports %+v, want %+v", k.end, want)
	}
}

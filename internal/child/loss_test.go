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

// slack is how late a loaded machine may do what it is told. Callers leave room for it between the end of a group and the
// end of their lease.
const slack = 2 * time.Second

func TestWithoutExtensionTheGroupDies(t *testing.T) {
	t.Parallel()
	const grace = 300 * time.Millisecond
	out := create(t, t.TempDir(), "out")
	stamps := out.Name() + "-stamps"
	until := time.Now().Add(callerTTL)
	c, err := Start(Command{
		Args: sh(stubborn), Stdout: out, Grace: grace, Env: append(os.Environ(), "STAMPS="+stamps),
	}, until)
	if err != nil {
		t.Fatal(err)
	}
	r := result(t, c)
	if d := time.Until(until.Add(grace)); d > 0 || d < -slack {
		t.Errorf("it ended %v before the end of its grace", d)
	}
	if r != (Result{ExitCode: 128 + 9, Expired: true, Killed: true}) {
		t.Errorf("%+v", r)
	}
	assertGroupDead(t, c.pgid)
	if last := (&caller{stamps: stamps}).lastStamp(); last == 0 || last > until.Add(grace+slack).UnixNano() {
		t.Errorf("the last stamp is %d, which is %v after the end", last, time.Duration(last-until.Add(grace).UnixNano()))
	}
}

func TestExtensionKeepsItAlive(t *testing.T) {
	t.Parallel()
	c := start(t, Command{Args: sh("sleep 4.5; exit 4"), Grace: 0}, callerTTL)
	tick := time.NewTicker(20 * time.Millisecond)
	for {
		select {
		case <-c.Done():
			if r := c.Result(); r != (Result{ExitCode: 4}) {
				t.Errorf("%+v", r)
			}
			return
		case <-tick.C:
			c.Extend(time.Now().Add(callerTTL))
		}
	}
}

func TestExtensionCanShortenTheTime(t *testing.T) {
	t.Parallel()
	c := start(t, Command{Args: sh("sleep 60")}, time.Hour)
	c.Extend(time.Now())
	if r := result(t, c); !r.Expired {
		t.Errorf("%+v", r)
	}
}

func TestTimeThatRanOutDoesNotComeBack(t *testing.T) {
	t.Parallel()
	out := create(t, t.TempDir(), "out")
	c := start(t, Command{
		Args: sh(`trap 'echo asked' TERM; while :; do sleep 0.05; done`), Stdout: out, Grace: 500 * time.Millisecond,
	}, callerTTL)
	eventually(t, "it got SIGTERM", func() bool { return strings.Contains(read(t, out.Name()), "asked") })
	c.Extend(time.Now().Add(time.Hour))
	if r := result(t, c); !r.Expired || !r.Killed {
		t.Errorf("%+v", r)
	}
}

func TestEitherClockEndsTheTime(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, d := range map[string]deadline{
		"monotonic": {now, now.Round(0).Add(time.Hour)},
		"wall":      {now.Add(time.Hour), now.Round(0)},
	} {
		if left := d.remaining(); left > 0 {
			t.Errorf("by the %s clock it is over, but %v are left", name, left)
		}
	}
	// The wall clock jumps as it does when a suspended machine wakes.
	c := start(t, Command{Args: sh("sleep 60"), Grace: time.Minute}, time.Hour)
	c.mu.Lock()
	c.until = time.Now().Round(0).Add(-time.Second)
	c.sendOrder()
	c.mu.Unlock()
	if r := result(t, c); !r.Expired {
		t.Errorf("%+v", r)
	}
}

func TestStoppedCallerEndsTheGroupInTime(t *testing.T) {
	t.Parallel()
	c := startCaller(t, stubborn, callerTTL)
	for range 10 {
		c.lines.Scan()
	}
	c.cmd.Process.Signal(syscall.SIGSTOP)
	// It may have told the keeper more than what is read so far, but no later time than this.
	end := time.Now().Add(callerTTL + callerGrace)
	eventually(t, "the group is dead", func() bool { return !groupLives(c.pgid) })
	if late := time.Since(end); late > slack {
		t.Errorf("the group died %v too late", late)
	}
	if late := time.Duration(c.lastStamp() - end.UnixNano()); late > slack {
		t.Errorf("a stamp was written %v too late", late)
	}
	c.cmd.Process.Signal(syscall.SIGCONT)
	if line := c.result(); line != "result 137 true true <nil>" {
		t.Errorf("the caller says %q", line)
	}
}

func TestKilledCallerEndsTheGroup(t *testing.T) {
	t.Parallel()
	c := startCaller(t, stubborn, time.Hour)
	c.cmd.Process.Kill()
	end := time.Now().Add(callerGrace)
	eventually(t, "the group is dead", func() bool { return !groupLives(c.pgid) })
	if late := time.Since(end); late > slack {
		t.Errorf("the group died %v too late", late)
	}
	eventually(t, "the keeper is gone", func() bool { return syscall.Kill(c.keeper, 0) != nil || state(t, c.keeper) == "Z" })
}

func TestKilledKeeperEndsTheGroup(t *testing.T) {
	t.Parallel()
	c := startCaller(t, stubborn, time.Hour)
	syscall.Kill(c.keeper, syscall.SIGKILL)
	if line := c.result(); line != "result 137 false true "+errDied.Error() {
		t.Errorf("the caller says %q", line)
	}
	assertGroupDead(t, c.pgid)
}

func TestStoppedKeeperIsWoken(t *testing.T) {
	t.Parallel()
	c := startCaller(t, stubborn, callerTTL)
	syscall.Kill(c.keeper, syscall.SIGSTOP)
	end := time.Now().Add(callerTTL + callerGrace)
	eventually(t, "the group is dead", func() bool { return !groupLives(c.pgid) })
	if late := time.Since(end); late > slack {
		t.Errorf("the group died %v too late", late)
	}
	if line := c.result(); line != "result 137 true true <nil>" {
		t.Errorf("the caller says %q", line)
	}
}

func TestKeeperThatDoesNotAnswerIsKilled(t *testing.T) {
	t.Parallel()
	c := startCaller(t, stubborn, callerTTL, deafVariable+"=1")
	end := time.Now().Add(callerTTL + callerGrace)
	eventually(t, "the group is dead", func() bool { return !groupLives(c.pgid) })
	if late := time.Since(end); late > slack {
		t.Errorf("the group died %v too late", late)
	}
	if line := c.result(); line != "result 137 true true "+errSilent.Error() {
		t.Errorf("the caller says %q", line)
	}
	if syscall.Kill(c.keeper, 0) == nil {
		t.Error("the keeper is alive")
	}
}

func TestExtendDoesNotBlockOnAStoppedKeeper(t *testing.T) {
	t.Parallel()
	c := start(t, Command{Args: sh("sleep 60")}, time.Hour)
	c.keeper.Process.Signal(syscall.SIGSTOP)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 100_000 { // a pipe holds fewer
			c.Extend(time.Now().Add(time.Hour))
		}
	}()
	select {
	case <-done:
	case <-c.Done():
		t.Error("Extend still blocked when the command was dead")
	case <-time.After(patience):
		t.Fatal("Extend blocks")
	}
	c.keeper.Process.Signal(syscall.SIGCONT)
	c.Stop()
	result(t, c)
}

func TestSignalsToTheKeeperDoNotEndIt(t *testing.T) {
	t.Parallel()
	c := start(t, Command{Args: sh("sleep 1; exit 6")}, time.Minute)
	for _, s := range []syscall.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTSTP,
	} {
		// It leads a group, and what is sent to the caller's does not reach it.
		if err := syscall.Kill(-c.keeper.Process.Pid, s); err != nil {
			t.Errorf("%v: %v", s, err)
		}
	}
	if r := result(t, c); r != (Result{ExitCode: 6}) {
		t.Errorf("%+v", r)
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
			"outside the group", "setsid sh -c 'echo $$ >$PIDS; exec sleep 60' & until [ -s $PIDS ]; do sleep 0.01; done; exit 3",
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

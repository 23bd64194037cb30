//go:build unix

package child

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// slack is how late a loaded machine may do what it is told. Callers leave room for it between the
// end of a group and the end of their lease.
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
	end, last := until.Add(grace).UnixNano(), (&caller{stamps: stamps}).lastStamp()
	if last == 0 || last > end+int64(slack) {
		t.Errorf("the last stamp is %d, which is %v after the end", last, time.Duration(last-end))
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
		Args:   sh(`trap 'echo asked' TERM; while :; do sleep 0.05; done`),
		Stdout: out, Grace: 500 * time.Millisecond,
	}, callerTTL)
	eventually(t, "it got SIGTERM", func() bool {
		return strings.Contains(read(t, out.Name()), "asked")
	})
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
	eventually(t, "the keeper is gone", func() bool {
		return syscall.Kill(c.keeper, 0) != nil || state(t, c.keeper) == "Z"
	})
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
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTSTP,
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

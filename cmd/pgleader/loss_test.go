//go:build unix

package main

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

// The command of an instance that something happens to is dead before another instance's begins,
// with all that it started.
func TestCommandsNeverOverlap(t *testing.T) {
	t.Parallel()
	type scene struct {
		proxy *pgtest.Proxy // the first instance's way to the database
		url   string
		first *instance
	}
	for name, befall := range map[string]func(*testing.T, scene){
		"kill -9 of pgleader": func(t *testing.T, s scene) { s.first.send(t, syscall.SIGKILL) },
		"SIGSTOP of pgleader": func(t *testing.T, s scene) { s.first.send(t, syscall.SIGSTOP) },
		"a frozen connection": func(_ *testing.T, s scene) { s.proxy.Freeze() },
		"a cut connection":    func(_ *testing.T, s scene) { s.proxy.Cut() },
		"an operator who dismisses the leader": func(t *testing.T, s scene) {
			e, err := leader.New(pgtest.Open(t, "pgx", s.url), leader.Config{})
			if err == nil {
				_, err = e.Dismiss(context.Background(), "mail-worker")
			}
			if err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.NewURL(t)
			proxy := pgtest.NewProxy(t, url)
			d := diary(t.TempDir())
			first := launch(t, proxy.URL, d.keep()...)
			d.written(t, "1")
			second := launch(t, url, d.keep()...)
			second.says(t, "waiting, ")
			befall(t, scene{proxy, url, first})
			eventually(t, "a second term", func() bool { return d.began(t, "2") || d.began(t, "3") })
			_ = first.Process.Signal(syscall.SIGCONT) // it may be dead
			for range 20 {
				second := d.newest(t) // whatever is left of the first has time to write
				d.written(t, second)
			}
			d.apart(t)
		})
	}
}

// A restart of the server costs the lease or not; either way commands don't overlap, and one runs
// afterwards.
func TestCommandsNeverOverlapAcrossARestartOfTheServer(t *testing.T) {
	t.Parallel()
	server := pgtest.Private(t)
	url, err := server.CreateDatabase(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	d := diary(t.TempDir())
	first := launch(t, url, d.keep()...)
	d.written(t, "1")
	second := launch(t, url, d.keep()...)
	second.says(t, "waiting, ")
	if err := server.Restart(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	first.send(t, syscall.SIGTERM) // whether or not it still leads
	first.exit(t)
	eventually(t, "a second term", func() bool { return d.began(t, "2") || d.began(t, "3") })
	d.apart(t)
}

func TestLostLeaseEndsTheCommandAndOnceExitsWith124(t *testing.T) {
	t.Parallel()
	url := pgtest.NewURL(t)
	d := diary(t.TempDir())
	first := launch(t, url, d.keep("--once")...)
	d.written(t, "1")
	pool := pgtest.Open(t, "pgx", url)
	var expires time.Time
	err := pool.QueryRowContext(t.Context(), `
		UPDATE leader_lease SET holder = 'thief', token = token + 1
		RETURNING expires_at`).Scan(&expires)
	if err != nil {
		t.Fatal(err)
	}
	if code := first.exit(t); code != exitLost {
		t.Errorf("exit status %d, want %d", code, exitLost)
	}
	times := d.times(t, "1")
	if last := times[len(times)-1]; !last.Before(expires) {
		t.Errorf("the command last wrote at %v, and the lease expired at %v", last, expires)
	}
	first.says(t, "lost the lease with token 1")
}

func TestTermIsPassedOnAndTheLeaseKeptUntilTheCommandHasEnded(t *testing.T) {
	t.Parallel()
	url := pgtest.NewURL(t)
	dir := t.TempDir()
	first := launch(t, url, "run", "mail-worker", "--ttl", testTTL.String(), "--", "sh", "-c",
		`trap 'date +%s%N > "$0/got"; sleep 3; date +%s%N > "$0/left"; exit 7' TERM
		touch "$0/ready"
		while :; do sleep 0.05; done`, dir)
	eventually(t, "the command", func() bool { return exists(dir, "ready") })
	second := launch(t, url, "run", "mail-worker", "--ttl", testTTL.String(), "--",
		"sh", "-c", `date +%s%N > "$0/next"`, dir)
	second.says(t, "waiting, ")
	first.send(t, syscall.SIGTERM)
	if code := first.exit(t); code != 7 {
		t.Errorf("exit status %d, want the command's 7", code)
	}
	if code := second.exit(t); code != 0 {
		t.Errorf("exit status %d of the second", code)
	}
	left, next := diary(dir).times(t, "left"), diary(dir).times(t, "next")
	if len(left) != 1 || len(next) != 1 || !left[0].Before(next[0]) {
		t.Errorf("the command ended at %v, the next one began at %v", left, next)
	}
}

func TestDrainTimeoutKillsACommandThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	url := pgtest.NewURL(t)
	dir := t.TempDir()
	i := launch(t, url, "run", "mail-worker", "--stop-within", "100ms", "--drain-timeout", "200ms",
		"--", "sh", "-c", `trap '' TERM; touch "$0/ready"; while :; do sleep 0.05; done`, dir)
	eventually(t, "the command", func() bool { return exists(dir, "ready") })
	i.send(t, syscall.SIGTERM)
	if code := i.exit(t); code != 128+9 {
		t.Errorf("exit status %d, want 137", code)
	}
}

func TestCandidateThatIsAskedToEndExitsWith0(t *testing.T) {
	t.Parallel()
	url := pgtest.NewURL(t)
	d := diary(t.TempDir())
	launch(t, url, d.keep()...)
	d.written(t, "1")
	for _, sig := range []syscall.Signal{
		syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT,
	} {
		second := launch(t, url, "run", "mail-worker", "--", "false")
		second.says(t, "waiting, ")
		second.send(t, sig)
		if code := second.exit(t); code != 0 {
			t.Errorf("%v: exit status %d, want 0", sig, code)
		}
	}
}

func TestOtherSignalsReachTheCommand(t *testing.T) {
	t.Parallel()
	url := pgtest.NewURL(t)
	dir := t.TempDir()
	i := launch(t, url, "run", "mail-worker", "--", "sh", "-c",
		`for s in HUP QUIT USR1 USR2; do trap "touch $0/$s" $s; done
		trap 'exit 5' INT
		touch "$0/ready"
		while :; do sleep 0.05; done`, dir)
	eventually(t, "the command", func() bool { return exists(dir, "ready") })
	for name, sig := range map[string]syscall.Signal{
		"HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2,
	} {
		i.send(t, sig)
		eventually(t, name, func() bool { return exists(dir, name) })
	}
	i.send(t, syscall.SIGINT)
	if code := i.exit(t); code != 5 {
		t.Errorf("exit status %d, want 5", code)
	}
}

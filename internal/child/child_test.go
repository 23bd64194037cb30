//go:build unix

package child

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if os.Getenv(keeperVariable) != "" && os.Getenv(deafVariable) != "" {
		playDeafKeeper()
	}
	Main()
	if os.Getenv(adopterVariable) != "" {
		playAdopter()
	}
	if os.Getenv(callerVariable) != "" {
		playCaller()
		return
	}
	os.Exit(m.Run())
}

func TestExitCodePassesThrough(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		script string
		code   int
	}{
		{"exit 0", 0},
		{"exit 7", 7},
		{"kill -KILL $$", 128 + 9},
		{"kill -TERM $$", 128 + 15},
	} {
		c := start(t, Command{Args: sh(row.script), Grace: time.Minute}, time.Minute)
		if r := result(t, c); r != (Result{ExitCode: row.code}) {
			t.Errorf("%q: %+v, want exit code %d and nothing else", row.script, r, row.code)
		}
	}
}

func TestStartErrorsHaveTheShellsExitCodes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "text"), "not a program", 0o644)
	write(t, filepath.Join(dir, "script"), "no interpreter\n", 0o755)
	write(t, filepath.Join(dir, "lost"), "#!/nonexistent/interpreter\n", 0o755)
	for _, row := range []struct {
		name string
		code int
		is   error
	}{
		{"pgleader-no-such-command", 127, exec.ErrNotFound},
		{"/nonexistent/command", 127, fs.ErrNotExist},
		{"", 127, exec.ErrNotFound}, // not the directory itself
		{"./text", 126, fs.ErrPermission},
		{dir, 126, nil},
		{"./script", 126, syscall.ENOEXEC}, // only the keeper's exec finds out
		{"./lost", 127, fs.ErrNotExist},    // and here
	} {
		_, err := Start(Command{Args: []string{row.name}, Dir: dir}, time.Now().Add(time.Minute))
		var startErr *StartError
		if !errors.As(err, &startErr) || startErr.ExitCode != row.code ||
			row.is != nil && !errors.Is(err, row.is) {
			t.Errorf("%s: %#v, want a StartError with %d and %v", row.name, err, row.code, row.is)
		}
	}
}

func TestStartRefusesWhatIsNotTheCommandsFault(t *testing.T) {
	t.Parallel()
	var startErr *StartError
	for name, start := range map[string]func() (*Child, error){
		"no command": func() (*Child, error) { return Start(Command{}, time.Now().Add(time.Minute)) },
		"no directory": func() (*Child, error) {
			return Start(Command{Args: sh(""), Dir: "/nonexistent"}, time.Now().Add(time.Minute))
		},
		"no time": func() (*Child, error) { return Start(Command{Args: sh("")}, time.Now()) },
		"no time by the wall clock": func() (*Child, error) {
			return Start(Command{Args: sh("")}, time.Now().Round(0).Add(-time.Hour))
		},
	} {
		if _, err := start(); err == nil || errors.As(err, &startErr) {
			t.Errorf("%s: %v, want an error of another type than StartError", name, err)
		}
	}
}

func TestEnvironmentDirectoryAndFilesPass(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "in"), "line\n", 0o644)
	in, err := os.Open(filepath.Join(dir, "in"))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, errs := create(t, dir, "out"), create(t, dir, "errs")
	const listFiles = "echo $(ls /dev/fd/)"
	c := start(t, Command{
		Args: sh("cat; pwd; env; echo oops >&2; " + listFiles), Dir: dir,
		Env:   []string{"A=b c", "PATH=" + os.Getenv("PATH")},
		Stdin: in, Stdout: out, Stderr: errs,
	}, time.Minute)
	if r := result(t, c); r != (Result{}) {
		t.Fatalf("%+v", r)
	}
	got := read(t, out.Name())
	for _, want := range []string{"line\n", "A=b c\n", dir + "\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in the output %q", want, got)
		}
	}
	if strings.Contains(got, keeperVariable) {
		t.Errorf("the keeper's variable got into the environment: %q", got)
	}
	// It has as many files as without a keeper.
	want, err := exec.Command("sh", "-c", listFiles).Output()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(got, "\n"+string(want)) {
		t.Errorf("the command has other open files than %s: %q", want, got)
	}
	if read(t, errs.Name()) != "oops\n" {
		t.Errorf("standard error is %q", read(t, errs.Name()))
	}
}

func TestLastEntryOfAVariableCounts(t *testing.T) {
	t.Parallel()
	out := create(t, t.TempDir(), "out")
	// Shells take the last one of several, while getenv takes the first: env shows all.
	c := start(t, Command{
		Args: []string{"env"}, Stdout: out,
		Env: []string{"A=old", "B=1", "A=new=er", "PATH=" + os.Getenv("PATH")},
	}, time.Minute)
	if r := result(t, c); r != (Result{}) {
		t.Fatalf("%+v", r)
	}
	got := read(t, out.Name())
	if strings.Contains(got, "old") || !strings.Contains(got, "A=new=er\n") ||
		!strings.Contains(got, "B=1\n") {
		t.Errorf("the environment is %q, want A once, with its last value, and B", got)
	}
}

func TestLargeEnvironmentPasses(t *testing.T) {
	t.Parallel()
	// More than fits into a pipe at once.
	env := []string{"PATH=" + os.Getenv("PATH")}
	for _, name := range []string{"A", "B", "C"} {
		env = append(env, name+"="+strings.Repeat("x", 100_000))
	}
	c := start(t, Command{Args: sh("exit $((${#A} + ${#B} + ${#C} - 299993))"), Env: env}, time.Minute)
	if r := result(t, c); r != (Result{ExitCode: 7}) {
		t.Fatalf("%+v", r)
	}
}

func TestSignalsReachTheGroup(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{
		syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGUSR1, syscall.SIGUSR2,
	} {
		out := create(t, t.TempDir(), "out")
		// Both the command and its child say so. The child is in the foreground: what a shell starts with
		// & ignores SIGINT.
		const traps = `trap 'echo got; exit 3' TERM INT HUP QUIT USR1 USR2; echo ready; `
		c := start(t, Command{
			Args:   sh(traps+`sh -c "$0"; :`, traps+"while :; do sleep 0.02; done"),
			Stdout: out, Grace: time.Minute,
		}, time.Minute)
		said := func(word string) int { return strings.Count(read(t, out.Name()), word) }
		eventually(t, "both are ready", func() bool { return said("ready") == 2 })
		if err := c.Signal(sig); err != nil {
			t.Fatal(err)
		}
		eventually(t, "both got "+sig.String(), func() bool { return said("got") == 2 })
		if r := result(t, c); r.ExitCode != 3 || r.Expired || r.Err != nil {
			t.Errorf("%v: %+v, want exit code 3", sig, r)
		}
		if err := c.Signal(sig); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("after the end: %v", err)
		}
	}
}

func TestStopAsksFirst(t *testing.T) {
	t.Parallel()
	out := create(t, t.TempDir(), "out")
	c := start(t, Command{
		Args:   sh(`trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.02; done`),
		Stdout: out, Grace: time.Minute,
	}, time.Hour)
	eventually(t, "it is ready", func() bool { return read(t, out.Name()) == "ready\n" })
	for range 1000 {
		c.Extend(time.Now().Add(time.Hour)) // not all have been heard when Stop comes
	}
	c.Stop()
	c.Stop()
	r := result(t, c)
	if r != (Result{ExitCode: 5}) || !strings.HasSuffix(read(t, out.Name()), "bye\n") {
		t.Fatalf("%+v, %q", r, read(t, out.Name()))
	}
	c.Stop()
	c.Extend(time.Now().Add(time.Hour))
}

func TestStopWakesAStoppedCommand(t *testing.T) {
	t.Parallel()
	c := start(t, Command{Args: sh("kill -STOP $$; exit 1"), Grace: time.Minute}, time.Hour)
	if runtime.GOOS == "linux" {
		eventually(t, "it is stopped", func() bool { return state(t, c.pgid) == "T" })
	}
	c.Stop()
	if r := result(t, c); r.ExitCode != 128+15 || r.Killed {
		t.Fatalf("%+v, want an end by SIGTERM", r)
	}
}

func TestStopWakesAStoppedKeeper(t *testing.T) {
	t.Parallel()
	c := start(t, Command{Args: sh("sleep 60"), Grace: time.Minute}, time.Hour)
	c.keeper.Process.Signal(syscall.SIGSTOP)
	if runtime.GOOS == "linux" {
		eventually(t, "it is stopped", func() bool { return state(t, c.keeper.Process.Pid) == "T" })
	}
	c.Stop()
	if r := result(t, c); r != (Result{ExitCode: 128 + 15}) {
		t.Fatalf("%+v, want an end by SIGTERM", r)
	}
}

func TestStopKillsAfterGrace(t *testing.T) {
	t.Parallel()
	out := create(t, t.TempDir(), "out")
	c := start(t, Command{Args: sh(stubborn), Stdout: out, Grace: 100 * time.Millisecond}, time.Hour)
	eventually(t, "it is ready", func() bool { return read(t, out.Name()) == "ready\n" })
	before := time.Now()
	c.Stop()
	r := result(t, c)
	if r != (Result{ExitCode: 128 + 9, Killed: true}) {
		t.Errorf("%+v", r)
	}
	if d := time.Since(before); d < 100*time.Millisecond {
		t.Errorf("killed after %v, before its grace", d)
	}
	assertGroupDead(t, c.pgid)
}

func TestStdinPassesThrough(t *testing.T) {
	t.Parallel()
	in, feed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out := create(t, t.TempDir(), "out")
	c := start(t, Command{Args: []string{"cat"}, Stdin: in, Stdout: out}, time.Minute)
	in.Close()
	want := bytes.Repeat([]byte("0123456789abcde\n"), 20_000)
	if _, err := feed.Write(want); err != nil {
		t.Fatal(err)
	}
	feed.Close()
	if r := result(t, c); r != (Result{}) || read(t, out.Name()) != string(want) {
		t.Fatalf("%+v, and %d bytes of %d", r, len(read(t, out.Name())), len(want))
	}
}

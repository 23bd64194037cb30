//go:build unix

package main

import (
	"bufio"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgleader/pgleader/internal/pgtest"
)

func TestMain(m *testing.M) {
	if os.Getenv("WITH_HELPER") != "" {
		os.Unsetenv("WITH_HELPER")
		main()
	}
	pgtest.Main(m)
}

// with is the command, on the server that these tests share.
func with(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := withOwnServer(args...)
	cmd.Env = append(cmd.Env, "PGLEADER_POSTGRES="+pgtest.Shared(t).URL)
	return cmd
}

func withOwnServer(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "WITH_HELPER=1")
	return cmd
}

func TestCommandSeesTheURLs(t *testing.T) {
	t.Parallel()
	out, err := with(t, "--", "sh", "-c",
		`echo "$PGLEADER_POSTGRES"; echo "$DATABASE_URL"; echo "$PGLEADER_VET_URL"`).Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 3 || lines[0] == lines[1] || lines[1] != lines[2] {
		t.Fatalf("got %q, want the maintenance URL and twice the database's", lines)
	}
	for _, line := range lines {
		if _, err := pgx.ParseConfig(line); err != nil {
			t.Error(err)
		}
	}
}

func TestExitStatusIsTheCommands(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		script string
		want   int
	}{{"exit 0", 0}, {"exit 7", 7}, {"kill -KILL $$", 128 + int(syscall.SIGKILL)}} {
		cmd := with(t, "--", "sh", "-c", tt.script)
		cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != tt.want {
			t.Errorf("%s: exit status %d, want %d", tt.script, got, tt.want)
		}
	}
}

func TestSignalReachesTheCommandAndTheDatabaseGoes(t *testing.T) {
	t.Parallel()
	cmd := withOwnServer("-migrate", "--", "sh", "-c",
		`trap 'exit 5' TERM; echo "$DATABASE_URL"; while :; do sleep 0.05; done`)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), strings.TrimSpace(url))
	if err != nil {
		t.Fatal(err)
	}
	var leases int
	err = conn.QueryRow(t.Context(), "SELECT count(*) FROM leader_lease").Scan(&leases)
	if err != nil {
		t.Fatalf("the database is not migrated: %v", err)
	}
	conn.Close(t.Context())
	cmd.Process.Signal(syscall.SIGTERM)
	cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 5 {
		t.Errorf("exit status %d, want the command's 5", got)
	}
	if conn, err := pgx.Connect(t.Context(), strings.TrimSpace(url)); err == nil {
		conn.Close(t.Context())
		t.Error("the database is still there")
	}
}

func TestSignalDuringTheStartCleansUp(t *testing.T) {
	t.Parallel()
	// A server that accepts and never answers keeps the start waiting.
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	cmd := withOwnServer("--", "true")
	cmd.Env = append(cmd.Env,
		"PGLEADER_POSTGRES=postgres://u@"+silent.Addr().String()+"/postgres?sslmode=disable")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	conn, err := silent.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	began := time.Now()
	cmd.Process.Signal(syscall.SIGTERM)
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Fatalf("got %v, want exit status 1", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

//go:build unix

package pgtest

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/ory/dockertest/v3"
	"github.com/ory/dockertest/v3/docker"
)

func TestKilledRunLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"local", "docker"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "PGTEST_HELPER=1", "PGLEADER_POSTGRES="+kind)
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var s started
			err = json.NewDecoder(out).Decode(&s)
			cmd.Process.Signal(syscall.SIGKILL)
			cmd.Wait()
			if err != nil {
				if kind == Shared(t).Kind() || kind == os.Getenv("PGLEADER_POSTGRES_PRIVATE") {
					t.Fatalf("the other process did not start its server: %v", err)
				}
				if mine, err := startKind(t.Context(), kind); err == nil {
					t.Fatalf("the other process did not start its server, and this one can (%v)", mine.Close())
				}
				t.Skipf("no Postgres of kind %s here", kind)
			}

			config, err := pgx.ParseConfig(s.URL)
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, "nothing listens on the server's port", func() bool {
				network, address := pgconn.NetworkAddress(config.Host, config.Port)
				conn, err := net.Dial(network, address)
				if err == nil {
					conn.Close()
				}
				return err != nil
			})
			if s.Dir != "" {
				eventually(t, "the data directory is gone", func() bool {
					_, err := os.Stat(s.Dir)
					return errors.Is(err, os.ErrNotExist)
				})
				eventually(t, "the server process is gone",
					func() bool { return syscall.Kill(s.PID, 0) != nil })
			}
			if s.Container != "" {
				pool, err := dockertest.NewPool("")
				if err != nil {
					t.Fatal(err)
				}
				eventually(t, "the container is gone", func() bool {
					_, err := pool.Client.InspectContainerWithContext(s.Container, context.Background())
					var gone *docker.NoSuchContainer
					return errors.As(err, &gone)
				})
			}
		})
	}
}

package pgtest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// PgBouncer puts a pooler in the mode, "transaction" or "session", before the database, and returns
// the URL by way of it. It ignores the given parameters of a connection, which it would refuse
// else. The test is skipped where it is not installed.
func PgBouncer(t testing.TB, rawURL, mode string, ignored ...string) string {
	t.Helper()
	path, err := exec.LookPath("pgbouncer")
	if err != nil && Pooled() != "" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip("pgbouncer is not installed")
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	listener.Close()
	config := filepath.Join(t.TempDir(), "pgbouncer.ini")
	writePgBouncerConfig(t, config, u, port, mode, ignored)
	args := []string{"-q", config}
	if os.Getuid() == 0 {
		args = append([]string{"-u", "nobody"}, args...) // it refuses to be root
	}
	cmd := exec.Command(path, args...)
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(log)
		ended <- string(text)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		_ = cmd.Wait()
	})
	u.Host = fmt.Sprintf("127.0.0.1:%d", port)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		conn, err := pgx.Connect(context.Background(), u.String())
		if err == nil {
			conn.Close(context.Background())
			return u.String()
		}
		select {
		case text := <-ended:
			t.Fatalf("pgbouncer ended:\n%s", text)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// RolePassword is the password of all roles but the superuser that log in through PgBouncer.
const RolePassword = "secret"

// writePgBouncerConfig lets everybody in whom the server knows, and logs in there by the same name.
func writePgBouncerConfig(
	t testing.TB, path string, server *url.URL, port int, mode string, ignored []string,
) {
	t.Helper()
	password, _ := server.User.Password()
	users := filepath.Join(filepath.Dir(path), "userlist.txt")
	user := fmt.Appendf(nil, "%q %q\n", server.User.Username(), password)
	if err := os.WriteFile(users, user, 0o600); err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(server.Path, "/")
	text := fmt.Sprintf(`[databases]
%s = host=%s port=%s dbname=%s auth_user=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = plain
auth_file = %s
auth_query = SELECT rolname, '%s' FROM pg_roles WHERE rolname = $1
pool_mode = %s
ignore_startup_parameters = %s
`, name, server.Hostname(), server.Port(), name, server.User.Username(), port, users,
		RolePassword, mode, strings.Join(ignored, ","))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

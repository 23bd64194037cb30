package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// local is a server run from binaries of this machine.
type local struct {
	bin  string
	dir  string // holds data, log and the password file; the supervisor removes it
	url  string
	port int
	as   account
	env  []string // for the server alone

	supervisor *supervisor
	cmd        *exec.Cmd
	ended      chan struct{} // closed when cmd has been waited for
}

func startLocal(ctx context.Context) (*Server, error) {
	l, err := newLocal()
	if err != nil {
		return nil, err
	}
	return l.run(ctx)
}

// newLocal makes the directory of a server. run, or abandon, removes it.
func newLocal() (*local, error) {
	bin, err := findBinaries()
	if err != nil {
		return nil, err
	}
	as, err := serverAccount()
	if err != nil {
		return nil, fmt.Errorf("pgtest: %w", err)
	}
	dir, err := as.mkdirTemp()
	if err != nil {
		return nil, fmt.Errorf("pgtest: %w", err)
	}
	l := &local{bin: bin, dir: dir, as: as}
	if l.supervisor, err = supervise(dir); err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("pgtest: %w", err)
	}
	return l, nil
}

func (l *local) abandon(err error) error {
	return fmt.Errorf("pgtest: local server of %s: %w", l.bin, errors.Join(err, l.close()))
}

func (l *local) run(ctx context.Context) (*Server, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	version, err := l.init(ctx)
	if err != nil {
		return nil, l.abandon(err)
	}
	return &Server{
		URL:     l.url,
		Version: version,
		Where:   fmt.Sprintf("from %s on 127.0.0.1:%d", l.bin, l.port),
		kind:    "local",
		host:    l,
	}, nil
}

func (l *local) init(ctx context.Context) (version string, err error) {
	who := newCredentials()
	passwords := filepath.Join(l.dir, "password")
	if err := os.WriteFile(passwords, []byte(who.password+"\n"), 0o600); err != nil {
		return "", err
	}
	if err := l.as.own(passwords); err != nil {
		return "", err
	}
	// "password" is checked in one message each way, over loopback only; SCRAM costs each of a test's
	// many connections more.
	args := []string{
		"-D", l.data(), "-U", who.user, "--pwfile", passwords, "--auth=password",
		"--encoding=UTF8", "--locale=C", "--no-sync",
	}
	args = append(args, strings.Fields(os.Getenv("POSTGRES_INITDB_ARGS"))...)
	if out, err := l.command(ctx, "initdb", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("initdb: %w: %s", err, strings.TrimSpace(string(out)))
	}
	// Between the choice of a port and its use somebody else may take it.
	for range 3 {
		if l.port, err = freePort(); err != nil {
			return "", err
		}
		l.url = who.url("127.0.0.1", l.port)
		if version, err = l.start(ctx); err == nil || ctx.Err() != nil {
			break
		}
	}
	return version, err
}

// start runs the server and returns its version once it answers.
func (l *local) start(ctx context.Context) (version string, err error) {
	log, err := os.Create(filepath.Join(l.dir, "log"))
	if err != nil {
		return "", err
	}
	defer log.Close()
	args := append([]string{
		"-D", l.data(), "-p", strconv.Itoa(l.port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
	}, settings()...)
	cmd := l.command(context.Background(), "postgres", args...)
	cmd.Env = append(cmd.Env, l.env...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return "", err
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	l.cmd, l.ended = cmd, ended
	version, err = waitReady(ctx, l.url, func() error {
		select {
		case <-ended:
			text, _ := os.ReadFile(log.Name())
			return fmt.Errorf("postgres ended: %s", strings.TrimSpace(string(text)))
		default:
			return nil
		}
	})
	if err != nil {
		l.stop(context.WithoutCancel(ctx), true)
	}
	return version, err
}

func (l *local) data() string { return filepath.Join(l.dir, "data") }

func (l *local) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(l.bin, name), args...)
	cmd.Dir = l.dir
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PG") && !strings.HasPrefix(v, "LC_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "LC_ALL=C")
	l.as.prepare(cmd)
	return cmd
}

func (l *local) stop(ctx context.Context, immediate bool) error {
	select {
	case <-l.ended:
		return nil
	default:
	}
	if err := l.as.signal(l.cmd, immediate); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-l.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop: %w", ctx.Err())
	}
}

func (l *local) restart(ctx context.Context, immediate bool) error {
	if err := l.stop(ctx, immediate); err != nil {
		return err
	}
	_, err := l.start(ctx)
	return err
}

// close leaves the work to the supervisor: the way of a killed run is the only way there is.
func (l *local) close() error {
	err := l.supervisor.end(20 * time.Second)
	if _, statErr := os.Stat(l.dir); statErr == nil {
		err = errors.Join(err, fmt.Errorf("%s was not removed", l.dir))
	}
	return err
}

// findBinaries returns the directory of the newest PostgreSQL server of the machine.
func findBinaries() (string, error) {
	var dirs []string
	if path, err := exec.LookPath("postgres"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil { // its companions are beside it
			dirs = append(dirs, filepath.Dir(real))
		}
		dirs = append(dirs, filepath.Dir(path))
	}
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", // Debian, Ubuntu
		"/usr/pgsql-*/bin",          // PGDG on Red Hat
		"/opt/homebrew/opt/postgresql@*/bin",
		"/usr/local/opt/postgresql@*/bin",
		"/opt/homebrew/opt/postgresql/bin",
		"/usr/local/opt/postgresql/bin",
		"/Applications/Postgres.app/Contents/Versions/*/bin",
	} {
		found, _ := filepath.Glob(pattern)
		slices.SortFunc(found, func(a, b string) int { return versionIn(b) - versionIn(a) })
		dirs = append(dirs, found...)
	}
	for _, dir := range dirs {
		if isProgram(filepath.Join(dir, "initdb")) && isProgram(filepath.Join(dir, "postgres")) {
			return dir, nil
		}
	}
	return "", errors.New("pgtest: no PostgreSQL server binaries (initdb, postgres) in PATH, " +
		"in pg_config --bindir, or where Debian, Red Hat and Homebrew put them")
}

// versionIn is the number in a path such as /usr/lib/postgresql/17/bin, or 0.
func versionIn(path string) int {
	digits := strings.FieldsFunc(path, func(r rune) bool { return r < '0' || r > '9' })
	if len(digits) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(digits[0])
	return n
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir() && (info.Mode()&0o111 != 0 || runtime.GOOS == "windows")
}

// Package pgtest runs one throwaway Postgres for tests, the demo and benchmarks, and gives each
// test a database of its own.
//
// The environment says which Postgres: PGLEADER_POSTGRES is a postgres:// URL, "docker", "local",
// or empty. A server with a URL is used as it is: only databases of this package's making are
// created and dropped there. Empty prefers Docker where an engine answers and the image is there or
// can be pulled, then server binaries found on the machine. PGLEADER_POSTGRES_IMAGE names the
// image, default postgres:17. POSTGRES_USER, POSTGRES_PASSWORD and POSTGRES_INITDB_ARGS mean what
// they mean to the official image, for local servers too. PGLEADER_POSTGRES_SETTINGS is a list of
// name=value, separated by spaces, for the server's command line.
//
// What was started goes away with the process that started it, however that process ends.
package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// DefaultImage is the image used in Docker unless PGLEADER_POSTGRES_IMAGE names another.
const DefaultImage = "postgres:17"

// startTimeout bounds one start or restart: initdb on a slow disk, or the first start of a
// container. Pulling an image has a bound of its own.
const startTimeout = 2 * time.Minute

// pollEvery is how often a condition that nothing announces is looked at.
const pollEvery = 50 * time.Millisecond

// closeTimeout bounds the removal of databases.
const closeTimeout = 30 * time.Second

// Server is a running Postgres. It is safe for concurrent use, except Restart and Close.
type Server struct {
	// URL leads a superuser to the maintenance database.
	URL string
	// Version is the server's own, such as "17.2".
	Version string
	// Where says how the server runs, such as "in Docker (postgres:17) on 127.0.0.1:20432".
	Where string

	kind string // "url", "docker" or "local"
	host runner // nil for a server that is not ours

	databases databases
}

// runner is the part of a Server that differs between Docker and local binaries.
type runner interface {
	restart(ctx context.Context, immediate bool) error
	close() error
}

// Start runs the Postgres that the environment asks for. ctx bounds the start, not the server's
// life: Close ends that.
func Start(ctx context.Context) (*Server, error) {
	return startKind(ctx, os.Getenv("PGLEADER_POSTGRES"))
}

func startKind(ctx context.Context, kind string) (*Server, error) {
	switch {
	case kind == "":
		return startAny(ctx)
	case kind == "docker":
		return startDocker(ctx)
	case kind == "local":
		return startLocal(ctx)
	case isURL(kind):
		return attach(ctx, kind)
	}
	return nil, fmt.Errorf(`pgtest: PGLEADER_POSTGRES=%q is none of "docker", "local", `+
		`a postgres:// URL, or empty`, kind)
}

func isURL(s string) bool {
	return strings.HasPrefix(s, "postgres://") || strings.HasPrefix(s, "postgresql://")
}

func startAny(ctx context.Context) (*Server, error) {
	server, dockerErr := startDocker(ctx)
	if dockerErr == nil {
		return server, nil
	}
	server, localErr := startLocal(ctx)
	if localErr == nil {
		return server, nil
	}
	return nil, fmt.Errorf("pgtest: no Postgres to test on; start Docker, or install a PostgreSQL "+
		"server (Debian: apt install postgresql; macOS: brew install postgresql), "+
		"or set PGLEADER_POSTGRES to a postgres:// URL\n%w",
		errors.Join(dockerErr, localErr))
}

// attach uses a server that somebody else runs.
func attach(ctx context.Context, rawURL string) (*Server, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, fmt.Errorf("pgtest: PGLEADER_POSTGRES: %w", err)
	}
	version, err := serverVersion(ctx, rawURL)
	if err != nil {
		return nil, fmt.Errorf("pgtest: PGLEADER_POSTGRES: %w", err)
	}
	return &Server{URL: rawURL, Version: version, Where: "at " + u.Redacted(), kind: "url"}, nil
}

// String is one line for a log.
func (s *Server) String() string { return "PostgreSQL " + s.Version + " " + s.Where }

// Kind is "docker", "local" or, for a server that somebody else runs, "url".
func (s *Server) Kind() string { return s.kind }

// CanRestart reports whether Restart works: not for a server named by a URL.
func (s *Server) CanRestart() bool { return s.host != nil }

// Restart stops the server, fast or, with immediate, as a crash would, and starts it again on the
// same port. It returns when the server accepts connections, or an error matching
// errors.ErrUnsupported for a server named by a URL.
func (s *Server) Restart(ctx context.Context, immediate bool) error {
	if s.host == nil {
		return fmt.Errorf("pgtest: restart a server %s: %w", s.Where, errors.ErrUnsupported)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := s.host.restart(ctx, immediate); err != nil {
		return fmt.Errorf("pgtest: restart: %w", err)
	}
	return nil
}

// StallCommits makes every commit wait, as on a disk that does not answer: what was written keeps
// its locks, and nobody sees it. A standby that does not exist is what they wait for. The server
// begins to do so a moment later, and stops a moment after resume.
func (s *Server) StallCommits(ctx context.Context) (resume func() error, err error) {
	set := func(standby string) error {
		alter := "ALTER SYSTEM SET synchronous_standby_names = '" + standby + "'"
		if err := execute(ctx, s.URL, alter); err != nil {
			return err
		}
		return execute(ctx, s.URL, "SELECT pg_reload_conf()")
	}
	return func() error { return set("") }, set("nobody")
}

// Close stops and removes the server; of a server named by a URL, only this process's databases.
func (s *Server) Close() error {
	err := s.databases.close(s)
	if s.host != nil {
		err = s.host.close()
	}
	if err != nil {
		return fmt.Errorf("pgtest: close: %w", err)
	}
	return nil
}

// credentials are the superuser's. The password is random: other users can reach the port.
type credentials struct{ user, password string }

func newCredentials() credentials {
	c := credentials{user: os.Getenv("POSTGRES_USER"), password: os.Getenv("POSTGRES_PASSWORD")}
	if c.user == "" {
		c.user = "postgres"
	}
	if c.password == "" {
		c.password = rand.Text()
	}
	return c
}

func (c credentials) url(host string, port int) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(c.user, c.password),
		Host:     net.JoinHostPort(host, strconv.Itoa(port)),
		Path:     "/postgres",
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// settings are given to every server on its command line. Only fsync departs from a production
// server: the WAL is written as usual, so its volume can be measured, but survives no power cut.
// The last of several values for one name counts.
func settings() []string {
	args := []string{"-c", "max_connections=400", "-c", "fsync=off"}
	for setting := range strings.FieldsSeq(os.Getenv("PGLEADER_POSTGRES_SETTINGS")) {
		args = append(args, "-c", setting)
	}
	return args
}

// freePort picks a port below the range that outgoing connections draw from, so that it is still
// free for a restart.
func freePort() (int, error) {
	for range 100 {
		port := 15000 + mathrand.IntN(17000)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("no free port on 127.0.0.1")
}

// waitReady polls until the server answers, ctx ends, or ended says why it never will.
func waitReady(ctx context.Context, url string, ended func() error) (version string, err error) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		version, err = serverVersion(ctx, url)
		if err == nil {
			return version, nil
		}
		if why := ended(); why != nil {
			return "", why
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("not ready: %w (last: %w)", ctx.Err(), err)
		case <-tick.C:
		}
	}
}

func serverVersion(ctx context.Context, url string) (string, error) {
	var version string
	err := ask(ctx, url, "SHOW server_version", &version)
	version, _, _ = strings.Cut(version, " ")
	return version, err
}

func startTime(ctx context.Context, url string) (time.Time, error) {
	var t time.Time
	err := ask(ctx, url, "SELECT pg_postmaster_start_time()", &t)
	return t, err
}

// ask gets one value on a connection of its own.
func ask(ctx context.Context, url, query string, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return conn.QueryRow(ctx, query).Scan(answer)
}

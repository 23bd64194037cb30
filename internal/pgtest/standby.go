package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// PrivateLocal is Private for a test that needs replication: a server from binaries of this
// machine, whatever PGLEADER_POSTGRES says. The test is skipped where there are none.
func PrivateLocal(t testing.TB) *Server {
	t.Helper()
	if bin, err := findBinaries(); err != nil || !isProgram(filepath.Join(bin, "pg_basebackup")) {
		t.Skip("needs the programs of a PostgreSQL server on this machine, pg_basebackup among them")
	}
	s, err := startLocal(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, s)
	return s
}

func closeAfter(t testing.TB, s *Server) {
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Standby starts a streaming standby of a server that PrivateLocal started, with the
// application_name standby.
func (s *Server) Standby(t testing.TB) *Server {
	t.Helper()
	primary, ok := s.host.(*local)
	if !ok {
		t.Fatal("pgtest: only a local server can have a standby")
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	standby, err := primary.standby(ctx, s.URL)
	if err != nil {
		t.Fatalf("pgtest: start a standby: %v", err)
	}
	closeAfter(t, standby)
	return standby
}

func (l *local) standby(ctx context.Context, primaryURL string) (_ *Server, err error) {
	dir, err := l.as.mkdirTemp()
	if err != nil {
		return nil, err
	}
	s := &local{bin: l.bin, dir: dir, as: l.as}
	if s.supervisor, err = supervise(dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	out, err := s.command(ctx, "pg_basebackup",
		"-d", primaryURL+"&application_name=standby", "-D", s.data(),
		"-R", "-X", "stream", "--checkpoint=fast", "--no-sync").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("pg_basebackup: %w: %s", err, strings.TrimSpace(string(out)))
	}
	if s.port, err = freePort(); err != nil {
		return nil, err
	}
	s.url = strings.Replace(primaryURL, net.JoinHostPort("127.0.0.1", strconv.Itoa(l.port)),
		net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)), 1)
	version, err := s.start(ctx)
	if err != nil {
		return nil, err
	}
	where := fmt.Sprintf("on 127.0.0.1:%d, a standby", s.port)
	return &Server{URL: s.url, Version: version, Where: where, kind: "local", host: s}, nil
}

// Stop stops a local server, as a crash would, until Restart.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	l, ok := s.host.(*local)
	if !ok {
		t.Fatal("pgtest: only a local server can be stopped")
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := l.stop(ctx, true); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
}

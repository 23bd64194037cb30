package explain

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/words"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/migrations"
)

func TestFailedConnectionIsOneLineForAllHosts(t *testing.T) {
	t.Parallel()
	config, err := pgx.ParseConfig(
		"postgres://ada:s3cret@127.0.0.1:1,127.0.0.1:2,127.0.0.1:1/app?sslmode=prefer")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err = pgx.ConnectConfig(ctx, config)
	if err == nil {
		t.Fatal("somebody listens on port 1 or 2")
	}
	got := Message(fmt.Errorf("leader: list leases: %w", errors.Join(err)))
	want := `list leases: cannot connect to database "app" as "ada": ` +
		`127.0.0.1:1 (127.0.0.1): connection refused; 127.0.0.1:2 (127.0.0.1): connection refused`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if !Passes(err) || !strings.HasPrefix(Advice(err), "check that Postgres runs") {
		t.Errorf("passes %v, advice %q", Passes(err), Advice(err))
	}
}

func TestMessageLeavesOutTheNamesOfPackages(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("leader: claim: %w", errors.New("leader: the database\ndid not answer"))
	if got, want := Message(err), "claim: the database did not answer"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A row says what is to be done about an error, and whether it passes by itself.
func TestAdviceAndPatienceGoByTheKindOfError(t *testing.T) {
	t.Parallel()
	server := func(code, message string) error { return &pgconn.PgError{Code: code, Message: message} }
	for _, row := range []struct {
		err    error
		advice string // a part of it; "" for none
		passes bool
	}{
		{errors.New("whatever"), "", false},
		{words.WithHint(context.DeadlineExceeded, "raise --early"), "raise --early", false},
		{leader.ErrNotMigrated, "pgleader migrate up", false},
		{leader.ErrReadOnly, "connect to the primary", true},
		{migrations.ErrReadOnly, "connect to the primary", false},
		{migrations.ErrLocked, "run the command again", false},
		{server("28P01", "no"), "check user and password", false},
		{server("08P01", "password authentication failed"), "check user and password", true},
		{server("08P01", "unsupported startup parameter"), "ignore_startup_parameters", true},
		{server("3D000", "no"), "PGDATABASE", false},
		{server("42501", "no"), "pgleader doctor", false},
		{server("53300", "no"), "max_connections", true},
		{server("57P03", "no"), "try again", true},
		{server("40001", "no"), "", true},
		{server("22021", "no"), "", false},
		{&net.DNSError{IsNotFound: true}, "check the host name", false},
		{&net.DNSError{IsTimeout: true}, "check the host name", true},
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, "check that Postgres runs", true},
		{context.DeadlineExceeded, "the database did not answer", true},
		{context.Canceled, "", false},
		{errors.New("read only connection"), "none of the hosts takes writes", false},
		{errors.New("server refused TLS connection"), "sslmode=disable", false},
	} {
		err := fmt.Errorf("ask: %w", row.err)
		got := Advice(err)
		if !strings.Contains(got, row.advice) || (got == "") != (row.advice == "") {
			t.Errorf("%v: advice %q, want %q", err, got, row.advice)
		}
		if Passes(err) != row.passes {
			t.Errorf("%v: passes %v, want %v", err, !row.passes, row.passes)
		}
	}
}

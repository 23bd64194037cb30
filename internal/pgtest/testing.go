package pgtest

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"sync"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // driver "pgx"
	_ "github.com/lib/pq"              // driver "postgres"
)

// Drivers are the database/sql drivers that a test of the library runs over: lib/pq and pgx.
var Drivers = []string{"postgres", "pgx"}

// shared is the one server of a test process, started by the first test that needs it.
var shared struct {
	once   sync.Once
	server *Server
	err    error
}

// Main is the whole TestMain of a package whose tests use this one. It runs the tests, removes the
// server that they used, if any, and exits. Without it the server goes soon after the process.
func Main(m *testing.M) { os.Exit(Run(m)) }

// Run is Main for a package that has more to do: it returns the exit status.
func Run(m *testing.M) int {
	code := m.Run()
	if shared.server != nil {
		if err := shared.server.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	return code
}

// Shared is the server that the tests of this process share. Do not restart it or change its
// settings; see Private.
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.once.Do(func() {
		shared.server, shared.err = Start(context.Background())
		if shared.err == nil {
			fmt.Fprintf(os.Stderr, "pgtest: %v\n", shared.server)
		}
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server
}

// NewURL makes a fresh, migrated database on the shared server, gone when the test ends, and
// returns its URL.
func NewURL(t testing.TB) string {
	t.Helper()
	return newDatabase(t, Shared(t), true)
}

// NewEmptyURL is NewURL without the migrations.
func NewEmptyURL(t testing.TB) string {
	t.Helper()
	return newDatabase(t, Shared(t), false)
}

func newDatabase(t testing.TB, s *Server, migrated bool) string {
	t.Helper()
	url, err := s.CreateDatabase(context.Background(), migrated)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if err := s.DropDatabase(ctx, url); err != nil {
			t.Error(err)
		}
	})
	return url
}

// Open opens the URL with one of Drivers and closes it when the test ends.
func Open(t testing.TB, driver, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// Private starts a server for this test alone, to restart it or change its settings. CreateDatabase
// gives it databases, which go with it when the test ends. Where PGLEADER_POSTGRES is a URL, it is
// started as PGLEADER_POSTGRES_PRIVATE says: "docker", "local" or, to take what is there, empty. If
// nothing is there the test is skipped.
func Private(t testing.TB) *Server {
	t.Helper()
	kind := os.Getenv("PGLEADER_POSTGRES")
	optional := false
	if isURL(kind) {
		kind = os.Getenv("PGLEADER_POSTGRES_PRIVATE")
		optional = kind == ""
	}
	s, err := startKind(context.Background(), kind)
	if err != nil && optional {
		t.Skipf("needs a server of its own: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

package pgtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestMain(m *testing.M) {
	if os.Getenv("PGTEST_HELPER") != "" {
		helper()
	}
	Main(m)
}

// helper is another test process. It starts a server, says what it started, and waits to be killed.
func helper() {
	s, err := Start(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	report := started{URL: s.URL}
	switch host := s.host.(type) {
	case *local:
		report.Dir, report.PID = host.dir, host.cmd.Process.Pid
	case *container:
		report.Container = host.resource.Container.ID
	}
	json.NewEncoder(os.Stdout).Encode(report)
	select {}
}

type started struct {
	URL       string
	Dir       string // of a local server
	PID       int
	Container string // of one in Docker
}

// eventually polls until the condition holds; what it says otherwise is why the test fails.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 s: %s", what)
		}
		<-tick.C
	}
}

func TestUnknownKindIsAClearError(t *testing.T) {
	_, err := startKind(t.Context(), "mysql")
	want := `pgtest: PGLEADER_POSTGRES="mysql" is none of "docker", "local", ` +
		`a postgres:// URL, or empty`
	if err == nil || err.Error() != want {
		t.Fatalf("got %v, want %s", err, want)
	}
}

func TestUnreachableURLNamesTheVariable(t *testing.T) {
	_, err := startKind(t.Context(), "postgres://somebody:secret@127.0.0.1:1/postgres")
	if err == nil || !strings.HasPrefix(err.Error(), "pgtest: PGLEADER_POSTGRES: ") {
		t.Fatalf("got %v, want an error that names the variable", err)
	}
	if strings.Contains(err.Error(), "secret") {
		t.Fatalf("the error tells the password: %v", err)
	}
}

func TestNothingToRunOnSaysWhatToInstall(t *testing.T) {
	if _, err := findBinaries(); err == nil {
		t.Setenv("PGLEADER_POSTGRES_IMAGE", "127.0.0.1:1/absent:17")
		t.Setenv("POSTGRES_INITDB_ARGS", "--no-such-option")
	} else {
		t.Setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
	}
	_, err := startKind(t.Context(), "")
	for _, want := range []string{
		"start Docker", "install a PostgreSQL server", "set PGLEADER_POSTGRES",
		"pgtest: docker: ", "pgtest: local server",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to say %q", err, want)
		}
	}
}

func TestFreshDatabasesAreMigratedAndIsolated(t *testing.T) {
	t.Parallel()
	for _, driver := range Drivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			one, two := Open(t, driver, NewURL(t)), Open(t, driver, NewURL(t))
			if _, err := one.Exec("CREATE TABLE mine ()"); err != nil {
				t.Fatal(err)
			}
			const tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public' AND tablename = $1"
			for _, tt := range []struct {
				table string
				want  int
			}{{"leader_lease", 1}, {"mine", 0}} {
				var n int
				if err := two.QueryRow(tables, tt.table).Scan(&n); err != nil || n != tt.want {
					t.Errorf("the second database has %d tables %s (%v), want %d", n, tt.table, err, tt.want)
				}
			}
			var n int
			empty := Open(t, driver, NewEmptyURL(t))
			const all = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
			if err := empty.QueryRow(all).Scan(&n); err != nil || n != 0 {
				t.Errorf("the empty database has %d tables (%v), want 0", n, err)
			}
		})
	}
}

func TestDatabaseGoesWithItsTest(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	var url string
	t.Run("test", func(t *testing.T) {
		url = NewURL(t)
		var n int
		// Still in use when the test ends, as after a failure.
		if err := Open(t, "pgx", url).QueryRow("SELECT 1").Scan(&n); err != nil {
			t.Fatal(err)
		}
		conn, err := pgx.Connect(context.Background(), url)
		if err != nil {
			t.Fatal(err)
		}
		go conn.Exec(context.Background(), "SELECT pg_sleep(60)")
	})
	if exists(t, s, databaseOf(url)) {
		t.Fatalf("%s is still there", databaseOf(url))
	}
}

func databaseOf(url string) string {
	name := url[strings.LastIndexByte(url, '/')+1:]
	name, _, _ = strings.Cut(name, "?")
	return name
}

func exists(t *testing.T, s *Server, database string) bool {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var yes bool
	err = conn.QueryRow(t.Context(),
		"SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", database).Scan(&yes)
	if err != nil {
		t.Fatal(err)
	}
	return yes
}

// attached is what another process has that was given the shared server's URL.
func attached(t *testing.T) *Server {
	t.Helper()
	s, err := startKind(t.Context(), Shared(t).URL)
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

func TestRunsThatShareAServerDoNotMeet(t *testing.T) {
	t.Parallel()
	const runs, each = 3, 4
	type made struct {
		url string
		err error
	}
	results := make(chan made, runs*each)
	for range runs {
		s := attached(t)
		for range each {
			go func() {
				url, err := s.CreateDatabase(context.Background(), true)
				results <- made{url, err}
			}()
		}
	}
	seen := map[string]bool{}
	for range runs * each {
		r := <-results
		if r.err != nil {
			t.Fatal(r.err)
		}
		if seen[r.url] {
			t.Fatalf("%s was handed out twice", databaseOf(r.url))
		}
		seen[r.url] = true
	}
}

func TestDeadRunsDatabasesAreDroppedByTheNextRun(t *testing.T) {
	t.Parallel()
	dead, live, next := attached(t), attached(t), attached(t)
	deadURL, err := dead.CreateDatabase(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	liveURL, err := live.CreateDatabase(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	// All that a killed process leaves is a closed connection.
	if err := dead.databases.owner.PgConn().Conn().Close(); err != nil {
		t.Fatal(err)
	}
	dead.databases.owner = nil
	// The server notices in its own time, so ask again with ever new runs.
	eventually(t, "the dead run's databases are dropped", func() bool {
		next.databases.owner = nil
		if _, err := next.CreateDatabase(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		return !exists(t, next, databaseOf(deadURL)) && !exists(t, next, dead.databases.name("template"))
	})
	if !exists(t, next, databaseOf(liveURL)) {
		t.Fatal("the live run's database was dropped too")
	}
}

func TestRestartKeepsAddressAndData(t *testing.T) {
	t.Parallel()
	s := Private(t)
	url, err := s.CreateDatabase(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	if !s.CanRestart() {
		t.Fatal("CanRestart: got false for a server of our own")
	}
	if err := execute(t.Context(), url, "CREATE TABLE kept (n int)"); err != nil {
		t.Fatal(err)
	}
	for i, immediate := range []bool{false, true, true, false} {
		if err := execute(t.Context(), url, "INSERT INTO kept VALUES (1)"); err != nil {
			t.Fatal(err)
		}
		before, err := startTime(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Restart(t.Context(), immediate); err != nil {
			t.Fatal(err)
		}
		after, err := startTime(t.Context(), url)
		if err != nil || !after.After(before) {
			t.Fatalf("immediate=%v: started at %v (%v), before the restart at %v",
				immediate, after, err, before)
		}
		var n int
		if err := ask(t.Context(), url, "SELECT count(*) FROM kept", &n); err != nil || n != i+1 {
			t.Fatalf("immediate=%v: %d rows (%v), want %d", immediate, n, err, i+1)
		}
	}
}

func TestRestartOfSomebodyElsesServerIsUnsupported(t *testing.T) {
	t.Parallel()
	s := attached(t)
	if err := s.Restart(t.Context(), false); s.CanRestart() || !errors.Is(err, errors.ErrUnsupported) {
		t.Fatalf("CanRestart %v, Restart %v; want false and errors.ErrUnsupported", s.CanRestart(), err)
	}
}

func TestDropRefusesForeignDatabases(t *testing.T) {
	t.Parallel()
	s := attached(t)
	if err := s.DropDatabase(t.Context(), s.URL); err == nil || !exists(t, s, databaseOf(s.URL)) {
		t.Fatalf("got %v, want a refusal", err)
	}
}

func TestSettingsOfTheEnvironmentCountMost(t *testing.T) {
	t.Setenv("PGLEADER_POSTGRES_SETTINGS", " fsync=on  max_connections=17")
	got := strings.Join(settings(), " ")
	if want := "-c max_connections=400 -c fsync=off -c fsync=on -c max_connections=17"; got != want {
		t.Errorf("settings() = %q, want %q: the last of several counts", got, want)
	}
}

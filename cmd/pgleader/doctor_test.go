package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgleader/pgleader/internal/pgtest"
)

// examined runs the doctor on a database.
func examined(t *testing.T, rawURL string, long time.Duration) map[string]finding {
	t.Helper()
	o, err := (&app{databaseURL: rawURL}).operator()
	if err != nil {
		t.Fatal(err)
	}
	defer o.close()
	found := make(map[string]finding)
	for _, f := range examine(t.Context(), o, long) {
		found[f.Check] = f
	}
	return found
}

func TestDoctorFindsLongTransaction(t *testing.T) {
	t.Parallel()
	rawURL := pgtest.NewURL(t)
	conn, err := pgx.Connect(t.Context(), rawURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var pid int
	if err := conn.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		t.Fatal(err)
	}
	who := fmt.Sprintf("(pid %d)", pid)
	// Other tests have transactions of their own on this server, if short ones: ours is begun first, and is the oldest
	// for long.
	if _, err := conn.Exec(t.Context(), "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM leader_lease"); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; {
		f := examined(t, rawURL, time.Millisecond)["transactions"]
		if f.Level == warning && strings.Contains(f.Finding, who) && strings.Contains(f.Advice, "pg_terminate_backend") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("it does not name %s: %+v", who, f)
		}
	}
	if f := examined(t, rawURL, 1000*time.Hour)["transactions"]; f.Level != fine {
		t.Errorf("a transaction of this test's is too long: %+v", f)
	}
}

func TestDoctorWarnsOfClockThatIsFarOff(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		offset, trip time.Duration
		want         level
		text         string
	}{
		{0, time.Millisecond, fine, "0s ahead of"},
		{-1900 * time.Millisecond, time.Millisecond, fine, "1.9s behind"},
		{2100 * time.Millisecond, time.Millisecond, warning, "2.1s ahead of"},
		{-time.Hour, time.Millisecond, warning, "1h0m0s behind"},
		{2100 * time.Millisecond, time.Second, fine, "2.1s ahead of"}, // the round trip alone may explain it
	} {
		d := &doctor{}
		d.judgeClock(test.offset, test.trip)
		if f := d.findings[0]; f.Level != test.want || !strings.Contains(f.Finding, test.text) ||
			(f.Advice == "") != (test.want == fine) {
			t.Errorf("offset %v: %+v", test.offset, f)
		}
	}
}

func TestDoctorMeasuresClockAgainstServer(t *testing.T) {
	t.Parallel()
	rawURL := pgtest.NewURL(t)
	if f := examined(t, rawURL, time.Hour)["clock"]; f.Level != fine || strings.Contains(f.Finding, "round trip 0s") {
		t.Errorf("%+v", f)
	}
	// The path hides the server's own function behind one that is ahead of it, and this host behind that.
	err := execute(rawURL, `
		CREATE SCHEMA ahead;
		CREATE FUNCTION ahead.clock_timestamp() RETURNS timestamptz LANGUAGE sql
		AS $$ SELECT pg_catalog.clock_timestamp() + interval '1 hour' $$`)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("search_path", "ahead,pg_catalog,public")
	u.RawQuery = query.Encode()
	behind := regexp.MustCompile(`^this host's clock is (1h0m0|59m59)(\.\d+)?s behind the server's`)
	if f := examined(t, u.String(), time.Hour)["clock"]; f.Level != warning || !behind.MatchString(f.Finding) {
		t.Errorf("%+v", f)
	}
}

func TestDoctorRecognisesPoolerAndToolWorksThroughIt(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]level{"transaction": warning, "session": fine} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			pooled := pgtest.PgBouncer(t, pgtest.NewURL(t), mode)
			found := examined(t, pooled, time.Hour)
			if f := found["pooler"]; f.Level != want || strings.Contains(f.Finding, "could not") {
				t.Errorf("in pool mode %s: %+v", mode, f)
			}
			for _, f := range found {
				if strings.Contains(f.Finding, "could not be checked") {
					t.Errorf("%+v", f)
				}
			}
			for _, args := range [][]string{{"status"}, {"history", "nightly-report"}, {"migrate", "up"}} {
				_, status, stderr := start(t.Context(), t, append(args, "--database-url", pooled)...)
				if code := <-status; code != 0 {
					text, _ := os.ReadFile(stderr)
					t.Errorf("%v: exit status %d\n%s", args, code, text)
				}
			}
			u, err := url.Parse(pooled)
			if err != nil {
				t.Fatal(err)
			}
			u.User = url.UserPassword(u.User.Username(), "wrong")
			_, status, stderr := start(t.Context(), t, "status", "--database-url", u.String())
			<-status
			if text, _ := os.ReadFile(stderr); !strings.Contains(string(text), "check user and password") {
				t.Errorf("with a wrong password:\n%s", text)
			}
		})
	}
}

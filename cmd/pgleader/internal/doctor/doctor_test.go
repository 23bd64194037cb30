package doctor

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/connect"
	"github.com/pgleader/pgleader/cmd/pgleader/internal/operator"
	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// examined is what is found on a database, by check.
func examined(t *testing.T, rawURL string, long time.Duration) map[string]Finding {
	t.Helper()
	pool, err := connect.Open(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	o, err := operator.New(pool)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]Finding)
	for _, f := range examine(t.Context(), Patient{pool, o.Leases}, long) {
		found[f.Check] = f
	}
	return found
}

func TestLongTransactionIsFound(t *testing.T) {
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
	// Other tests have transactions of their own on this server, if short ones: ours is begun first,
	// and is the oldest for long.
	_, err = conn.Exec(t.Context(), "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM leader_lease")
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; {
		f := examined(t, rawURL, time.Millisecond)["transactions"]
		if f.Level == Warning && strings.Contains(f.Finding, who) &&
			strings.Contains(f.Advice, "pg_terminate_backend") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("it does not name %s: %+v", who, f)
		}
	}
	if f := examined(t, rawURL, 1000*time.Hour)["transactions"]; f.Level != Fine {
		t.Errorf("a transaction of this test's is too long: %+v", f)
	}
}

func TestClockThatIsFarOffIsAWarning(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		offset, trip time.Duration
		want         Level
		text         string
	}{
		{0, time.Millisecond, Fine, "0s ahead of"},
		{-1900 * time.Millisecond, time.Millisecond, Fine, "1.9s behind"},
		{2100 * time.Millisecond, time.Millisecond, Warning, "2.1s ahead of"},
		{-time.Hour, time.Millisecond, Warning, "1h0m0s behind"},
		// The round trip alone may explain it.
		{2100 * time.Millisecond, time.Second, Fine, "2.1s ahead of"},
	} {
		f := judgeClock(test.offset, test.trip)
		if f.Level != test.want || !strings.Contains(f.Finding, test.text) ||
			(f.Advice == "") != (test.want == Fine) {
			t.Errorf("offset %v: %+v", test.offset, f)
		}
	}
}

func TestClockIsMeasuredAgainstTheServer(t *testing.T) {
	t.Parallel()
	rawURL := pgtest.NewURL(t)
	f := examined(t, rawURL, time.Hour)["clock"]
	if f.Level != Fine || strings.Contains(f.Finding, "round trip 0s") {
		t.Errorf("%+v", f)
	}
	// The path hides the server's own function behind one that is ahead of it, and this host behind
	// that.
	_, err := pgtest.Open(t, "pgx", rawURL).ExecContext(t.Context(), `
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
	f = examined(t, u.String(), time.Hour)["clock"]
	if f.Level != Warning || !behind.MatchString(f.Finding) {
		t.Errorf("%+v", f)
	}
}

func TestPoolerIsRecognised(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]Level{"transaction": Warning, "session": Fine} {
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
		})
	}
}

func TestLeaseIsRemarkableIfSomebodyShouldLookAtIt(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC)
	lease := func(holder string, renewed, left time.Duration) leader.Lease {
		return leader.Lease{
			Job: "it's", Holder: holder, Token: 7, AcquiredAt: now.Add(-time.Hour),
			RenewedAt: now.Add(-renewed), ExpiresAt: now.Add(left), Left: left,
		}
	}
	for _, row := range []struct {
		lease   leader.Lease
		want    Level // "" if it is not remarkable
		finding string
		advice  string
	}{
		{lease("web-1", 5*time.Second, 10*time.Second), "", "", ""},
		{lease("web-1", time.Hour, -time.Hour), "", "", ""},
		{lease("web-1", 0, leader.MaxTTL+leaseSlack), "", "", ""},
		{
			lease("web-1", 0, leader.MaxTTL+leaseSlack+1), Problem, "longer than any TTL",
			"WHERE job_name = 'it''s'",
		},
		{lease("web-1", 50*time.Second, 10*time.Second), Warning, "not renewed its lease for 50s", "10s"},
		{
			lease("web-1", -time.Hour, time.Hour), Warning, "renewed 1h0m0s in the future",
			"AND renewed_at > clock_timestamp()",
		},
		{lease("operator", 0, time.Minute), Fine, "operator took it's away; it is free in 1m0s", ""},
	} {
		f, remarkable := judgeLease(row.lease)
		if remarkable != (row.want != "") || f.Level != row.want ||
			!strings.Contains(f.Finding, row.finding) || !strings.Contains(f.Advice, row.advice) {
			t.Errorf("%+v: %+v", row.lease, f)
		}
	}
}

func TestDatabaseThatCannotBeReachedIsAFinding(t *testing.T) {
	t.Parallel()
	found := examined(t, "postgres://ada:s3cret@127.0.0.1:1/app", time.Hour)
	f := found["connection"]
	if len(found) != 1 || f.Level != Problem || !strings.Contains(f.Finding, "connection refused") ||
		!strings.HasPrefix(f.Advice, "check that Postgres runs") {
		t.Errorf("%+v", found)
	}
}

package pgtest

import (
	"net/url"
	"os"
	"testing"
)

// Pooled is the mode of the pooler that a suite is to be run through, "transaction" or "session",
// and empty for none: PGLEADER_PGBOUNCER.
func Pooled() string { return os.Getenv("PGLEADER_PGBOUNCER") }

// PoolerSettings are what docs/operations.md recommends behind PgBouncer, by driver: a parameter of
// the URL and its value.
var PoolerSettings = map[string][2]string{
	"postgres": {"binary_parameters", "yes"},
	"pgx":      {"default_query_exec_mode", "exec"},
}

// ThroughPooler returns the URL by way of the pooler that Pooled asks for, or the URL itself where
// it asks for none. A test can open it with any of Drivers, for it has the settings of them all.
// Each driver passes those that it does not know to the pooler, which drops them.
func ThroughPooler(t testing.TB, rawURL string) string {
	t.Helper()
	if Pooled() == "" {
		return rawURL
	}
	var keys []string
	for _, setting := range PoolerSettings {
		keys = append(keys, setting[0])
	}
	u, err := url.Parse(PgBouncer(t, rawURL, Pooled(), keys...))
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	for _, setting := range PoolerSettings {
		query.Set(setting[0], setting[1])
	}
	u.RawQuery = query.Encode()
	return u.String()
}

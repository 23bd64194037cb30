package pgleader_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"net"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

// asNewRole creates a role without any rights and returns the URL for it.
func asNewRole(t *testing.T, admin *sql.DB, rawURL string) string {
	t.Helper()
	role := "pgtest_" + strings.ToLower(rand.Text())
	mustExec(t, admin, `CREATE ROLE `+role+` LOGIN PASSWORD '`+pgtest.RolePassword+`'`)
	t.Cleanup(func() {
		mustExec(t, admin, `DROP OWNED BY `+role)
		mustExec(t, admin, `DROP ROLE `+role)
	})
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, pgtest.RolePassword)
	return u.String()
}

// asked is the error of every method that asks the database, by name. Those that wait for a lease wait for this one no longer
// than the test does.
func asked(t *testing.T, e *leader.Elector) map[string]error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	all := map[string]error{}
	_, _, all["TryAcquire"] = e.TryAcquire(ctx, job)
	_, all["Campaign"] = e.Campaign(ctx, job)
	all["Run"] = e.Run(ctx, job, func(context.Context, *leader.Term) error { panic("led") })
	_, all["Leases"] = e.Leases(ctx)
	for _, err := range e.Observe(ctx, job) {
		all["Observe"] = err
	}
	return all
}

func TestDatabaseWithoutMigrationsIsRefusedByEveryMethod(t *testing.T) {
	t.Parallel()
	for _, driver := range pgtest.Drivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			e := newElector(t, pgtest.Open(t, driver, pgtest.NewEmptyURL(t)), quick)
			for method, err := range asked(t, e) {
				if !errors.Is(err, leader.ErrNotMigrated) || !strings.Contains(err.Error(), "migrations.Up") || sqlState(err) != "42P01" {
					t.Errorf("%s = %v, want ErrNotMigrated, what to do, and the driver's error", method, err)
				}
			}
		})
	}
}

func TestMissingRightsAreRefusedByEveryMethodWithTheGrantThatHelps(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		admin := pgtest.Open(t, driver, direct(url))
		pool := pgtest.Open(t, driver, asNewRole(t, admin, url))
		for method, err := range asked(t, newElector(t, pool, quick)) {
			if err == nil || !strings.Contains(err.Error(), "GRANT SELECT, INSERT, UPDATE ON leader_lease") || sqlState(err) != "42501" {
				t.Errorf("%s = %v, want the GRANT, and the driver's error", method, err)
			}
		}
		mustExec(t, admin, `GRANT SELECT, INSERT, UPDATE ON leader_lease TO PUBLIC`)
		term := acquire(t, newElector(t, pool, quick), job)
		if err := term.Guard(t.Context(), begin(t, pool, sql.LevelDefault)); err != nil {
			t.Errorf("Guard with these rights: %v", err)
		}
		eventuallyRenewed(t, admin, job, 1)
		acquire(t, newElector(t, pool, quick), "another job")
		resign(t, term)
	})
}

func TestReadOnlyServerIsRefusedByTryAcquire(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		alterDatabase(t, pgtest.Open(t, driver, direct(url)), `SET default_transaction_read_only = on`)
		pool := pgtest.Open(t, driver, url)
		_, ok, err := newElector(t, pool, quick).TryAcquire(t.Context(), job)
		if ok || !errors.Is(err, leader.ErrReadOnly) || !strings.Contains(err.Error(), "target_session_attrs=read-write") || sqlState(err) != "25006" {
			t.Errorf("TryAcquire = %v, %v; want ErrReadOnly, what to do, and the driver's error", ok, err)
		}
		if open := pool.Stats().OpenConnections; open != 0 {
			t.Errorf("%d connections to the read-only server are kept, want 0", open)
		}
	})
}

func TestUnreachableServerIsReportedWithTheDriversError(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, rawURL string) {
		proxy := pgtest.NewProxy(t, rawURL)
		proxy.Cut()
		_, ok, err := newElector(t, pgtest.Open(t, driver, proxy.URL), quick).TryAcquire(t.Context(), job)
		var dial *net.OpError
		if ok || !errors.As(err, &dial) {
			t.Errorf("TryAcquire without a server = %v, %v; want the dialler's error", ok, err)
		}

		admin := pgtest.Open(t, driver, direct(rawURL))
		u, err := url.Parse(asNewRole(t, admin, rawURL))
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(u.User.Username(), "wrong")
		pool := pgtest.Open(t, driver, u.String())
		if pool.PingContext(t.Context()) == nil {
			t.Fatal("the server asks for no password: set one that does, such as pgtest's own")
		}
		state := "28P01"
		if pgtest.Pooled() != "" {
			state = "08P01" // older versions of PgBouncer have no other
		}
		if _, ok, err := newElector(t, pool, quick).TryAcquire(t.Context(), job); ok || sqlState(err) != state && sqlState(err) != "28P01" {
			t.Errorf("TryAcquire with a wrong password = %v, %v; want the server's error", ok, err)
		}
	})
}

func TestNewRefusesWhatCanOverlap(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t, "pgx", "postgres://localhost:1/none")
	for name, cfg := range map[string]leader.Config{
		"two leaders for 2.9 s elsewhere":  {TTL: 4 * time.Second, RenewEvery: 3200 * time.Millisecond, RetryEvery: 3900 * time.Millisecond},
		"renewal as long as the TTL":       {TTL: time.Second, RenewEvery: time.Second},
		"renewal without room for a reply": {TTL: 30 * time.Second, RenewEvery: 17*time.Second + time.Millisecond},
		"TTL below the least":              {TTL: leader.MinTTL - 1},
		"TTL above the most":               {TTL: leader.MaxTTL + 1},
		"negative TTL":                     {TTL: -time.Second},
		"negative renewal":                 {RenewEvery: -time.Second},
		"negative retry":                   {RetryEvery: -time.Second},
		"holder with a NUL byte":           {Holder: "a\x00b"},
		"holder that is not UTF-8":         {Holder: "\xff"},
		"holder that is too long":          {Holder: strings.Repeat("x", 201)},
	} {
		if _, err := leader.New(pool, cfg); !errors.Is(err, leader.ErrConfig) {
			t.Errorf("%s: New = %v, want ErrConfig", name, err)
		}
	}
	if _, err := leader.New(nil, leader.Config{}); !errors.Is(err, leader.ErrConfig) {
		t.Errorf("New(nil) = %v, want ErrConfig", err)
	}
	for _, cfg := range []leader.Config{{}, {TTL: leader.MinTTL}, {TTL: leader.MaxTTL}, {TTL: 30 * time.Second, RenewEvery: 17 * time.Second}} {
		if _, err := leader.New(pool, cfg); err != nil {
			t.Errorf("New(%+v) = %v", cfg, err)
		}
	}
}

func TestLibraryDependsOnStandardLibraryAlone(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "./leader", "./db").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	own := 0
	for dep := range strings.Lines(string(out)) {
		dep = strings.TrimSpace(dep)
		first, _, _ := strings.Cut(dep, "/")
		switch {
		case dep == "github.com/pgleader/pgleader/leader", dep == "github.com/pgleader/pgleader/db":
			own++
		case strings.Contains(first, "."):
			t.Errorf("./leader or ./db depends on %s", dep)
		}
	}
	if own != 2 {
		t.Errorf("go list names %d of the two packages:\n%s", own, out)
	}
}

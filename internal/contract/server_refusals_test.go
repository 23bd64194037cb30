package contract_test

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

func TestDatabaseWithoutMigrationsIsRefusedByEveryMethod(t *testing.T) {
	t.Parallel()
	for _, driver := range pgtest.Drivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			e := newElector(t, pgtest.Open(t, driver, pgtest.NewEmptyURL(t)), quick)
			for method, err := range asked(t, e) {
				if !errors.Is(err, leader.ErrNotMigrated) || !says(err, "migrations.Up", "42P01") {
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
			if !says(err, "GRANT SELECT, INSERT, UPDATE ON leader_lease", "42501") {
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
		remedy := "target_session_attrs=read-write"
		if ok || !errors.Is(err, leader.ErrReadOnly) || !says(err, remedy, "25006") {
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
		_, ok, err = newElector(t, pool, quick).TryAcquire(t.Context(), job)
		if ok || sqlState(err) != state && sqlState(err) != "28P01" {
			t.Errorf("TryAcquire with a wrong password = %v, %v; want the server's error", ok, err)
		}
	})
}

// asked is the error of every method that asks the database, by name. Those that wait for a lease
// wait for this one no longer than the test does.
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

// says reports whether an error tells what helps, and has the driver's error behind it.
func says(err error, remedy, state string) bool {
	return err != nil && strings.Contains(err.Error(), remedy) && sqlState(err) == state
}

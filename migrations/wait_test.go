package migrations_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/golang-migrate/migrate/v4/database/postgres"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/migrations"
)

func TestStartsDuringLongMigrationGiveUpInTime(t *testing.T) {
	forEachDriver(t, func(t *testing.T, driver string) {
		rawURL := pgtest.NewEmptyURL(t)
		watch := pgtest.Open(t, driver, rawURL)
		long, stop := context.WithCancel(t.Context())
		first := make(chan error, 1)
		go func() { first <- migrations.UpFrom(long, pgtest.Open(t, driver, rawURL), endless()) }()
		waitForEndless(t, watch)

		starts := make([]*sql.DB, 3)
		for i := range starts {
			starts[i] = pgtest.Open(t, driver, rawURL)
			if err := starts[i].PingContext(t.Context()); err != nil { // the time is not for connecting
				t.Fatal(err)
			}
		}
		const limit = 3 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		start := time.Now()
		errs := make(chan error)
		for _, db := range starts {
			go func() { errs <- migrations.Up(ctx, db) }()
		}
		waitForWaiters(t, watch, len(starts))
		for range starts {
			err := <-errs
			checkLocked(t, err)
			if d := time.Since(start); d > limit+5*time.Second {
				t.Errorf("gave up after %v, want %v", d, limit)
			}
			// The query in the message finds the one that is in the way.
			_, query, _ := strings.Cut(err.Error(), "who it is: ")
			query, _, _ = strings.Cut(query, ": ")
			found := fmt.Sprintf(
				"SELECT count(*) > 0 FROM (%s) AS q WHERE granted AND query LIKE '%%pg_sleep%%'",
				strings.Replace(query, "*", "pg_stat_activity.query, pg_locks.granted", 1))
			if !scan[bool](t, watch, found) {
				t.Errorf("does not find the process that migrates: %s", query)
			}
		}

		// One that has more time goes on as soon as the long one ends.
		patient := make(chan error, 1)
		go func() { patient <- migrations.Up(t.Context(), pgtest.Open(t, driver, rawURL)) }()
		waitForWaiters(t, watch, 1)
		stop()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := <-patient; err != nil {
			t.Error(err)
		}
		checkVersion(t, watch, newest())
	})
}

func TestWaitEndsWithContextOrAfterDefault(t *testing.T) {
	left := migrations.WaitLeft(t.Context(), time.Now())
	if left <= 14*time.Second || left > 15*time.Second {
		t.Errorf("without a deadline: waits %v, want 15 s", left)
	}
	for _, d := range []time.Duration{time.Hour, time.Minute, 2 * time.Second, 50 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		if left := migrations.WaitLeft(ctx, time.Now()); left >= d || left < d*8/10 {
			t.Errorf("deadline in %v: waits %v, want a little less", d, left)
		}
	}
}

func TestUpWaitsOutExtremeDeadlines(t *testing.T) {
	forEachDriver(t, func(t *testing.T, driver string) {
		db := pgtest.Open(t, driver, pgtest.NewEmptyURL(t))
		ctx, cancel := context.WithDeadline(t.Context(), time.Now().AddDate(500, 0, 0))
		defer cancel()
		if err := migrations.Up(ctx, db); err != nil {
			t.Error(err)
		}
	})
}

func TestTableInUseFailsSoonAndKeepsNobodyWaiting(t *testing.T) {
	forEachDriver(t, func(t *testing.T, driver string) {
		rawURL := pgtest.NewEmptyURL(t)
		db := pgtest.Open(t, driver, rawURL)
		mustUp(t, db)
		user, err := pgtest.Open(t, driver, rawURL).BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer user.Rollback()
		if _, err := user.ExecContext(t.Context(), "SELECT * FROM leader_lease"); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		next := withNext("alter", "ALTER TABLE leader_lease ADD COLUMN note text",
			"ALTER TABLE leader_lease DROP COLUMN note")
		checkLocked(t, migrations.UpFrom(t.Context(), db, next))
		if d := time.Since(start); d > 10*time.Second {
			t.Errorf("queued for the table for %v, and renewals behind it", d)
		}
		_ = user.Rollback()
		if err := migrations.UpFrom(t.Context(), db, next); err != nil {
			t.Error(err)
		}
	})
}

// A program may also call golang-migrate by itself, with an open pool.
func TestUpAndGolangMigrateAsLibraryExcludeEachOther(t *testing.T) {
	forEachDriver(t, func(t *testing.T, driver string) {
		rawURL := pgtest.NewEmptyURL(t)
		db := pgtest.Open(t, driver, rawURL)
		config := &postgres.Config{MigrationsTable: "leader_schema_migrations"}
		stock, err := postgres.WithInstance(pgtest.Open(t, driver, rawURL), config)
		if err != nil {
			t.Fatal(err)
		}
		defer stock.Close()
		if err := stock.Lock(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		checkLocked(t, migrations.Up(ctx, db))
		if err := stock.Unlock(); err != nil {
			t.Fatal(err)
		}
		mustUp(t, db)
	})
}

func TestKilledMigrationIsUndoneAndStrandsNoLock(t *testing.T) {
	forEachDriver(t, func(t *testing.T, driver string) {
		rawURL := pgtest.NewEmptyURL(t)
		db := pgtest.Open(t, driver, rawURL)
		helper := exec.CommandContext(t.Context(), os.Args[0])
		helper.Env = append(os.Environ(), helperEnv+"="+driver+" "+rawURL)
		helper.Stderr = os.Stderr
		if err := helper.Start(); err != nil {
			t.Fatal(err)
		}
		waitForEndless(t, db)
		if err := helper.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = helper.Wait() // says that it was killed

		// Its statement would go on for ten minutes and keep the lock, but the server notices that the
		// client is gone.
		mustUp(t, db)
		checkVersion(t, db, newest())
		if exists(t, db, "half_done") {
			t.Error("half a migration was kept")
		}
	})
}

func TestEndOfContextEndsUpAtOnce(t *testing.T) {
	forEachDriver(t, func(t *testing.T, driver string) {
		rawURL := pgtest.NewEmptyURL(t)
		db, watch := pgtest.Open(t, driver, rawURL), pgtest.Open(t, driver, rawURL)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- migrations.UpFrom(ctx, db, endless()) }()
		waitForEndless(t, watch)
		start := time.Now()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) || errors.Is(err, migrations.ErrLocked) {
			t.Errorf("got %v, want context.Canceled", err)
		}
		if d := time.Since(start); d > 10*time.Second {
			t.Errorf("Up returned %v after its context ended", d)
		}
		waitFor(t, watch, "SELECT count(*) = 0"+others+"AND state <> 'idle'")
		if exists(t, watch, "leader_lease") {
			t.Error("part of a cancelled migration was kept")
		}
		mustUp(t, db)
		if err := migrations.Up(ctx, db); !errors.Is(err, context.Canceled) {
			t.Errorf("a context that had ended: got %v", err)
		}
	})
}

func TestEndOfContextEndsUpWhenNetworkIsGone(t *testing.T) {
	forEachDriver(t, func(t *testing.T, driver string) {
		rawURL := pgtest.NewEmptyURL(t)
		proxy := pgtest.NewProxy(t, rawURL)
		db, watch := pgtest.Open(t, driver, proxy.URL), pgtest.Open(t, driver, rawURL)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- migrations.UpFrom(ctx, db, endless()) }()
		waitForEndless(t, watch)
		proxy.Freeze()
		cancel()
		select {
		case err := <-done:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want context.Canceled", err)
			}
		case <-time.After(15 * time.Second):
			t.Error("Up does not return after its context ended")
		}
		proxy.Cut() // before db.Close, which waits for the connection
	})
}

//go:build unix

package main

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgleader/pgleader/internal/pgtest"
)

func TestTrySaysThatItWasAskedToEndBeforeItBegan(t *testing.T) {
	t.Parallel()
	url := pgtest.NewURL(t)
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	tx, err := conn.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, "LOCK TABLE leader_lease"); err != nil {
		t.Fatal(err)
	}
	i := launch(t, url, "try", "import", "--", "true")
	const waits = `
		SELECT EXISTS (
		    SELECT FROM pg_locks
		    WHERE NOT granted
		      AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`
	for waiting, end := false, time.Now().Add(patience); !waiting; time.Sleep(10 * time.Millisecond) {
		if err := tx.QueryRow(ctx, waits).Scan(&waiting); err != nil || time.Now().After(end) {
			t.Fatalf("it does not ask for the lease: %v", err)
		}
	}
	if err := i.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-i.gone
	const want = "pgleader: error: import: asked to end (terminated) before the command was started\n"
	if got := i.errs.String(); i.ProcessState.ExitCode() != exitFailed || got != want {
		t.Errorf("exit status %d, %q, want %d, %q", i.ProcessState.ExitCode(), got, exitFailed, want)
	}
}

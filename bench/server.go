package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/pgleader/pgleader/internal/pgtest"
)

// Benchmarks run as durable as a production server: the floor includes the flush of the WAL.
const (
	durable    = "fsync=on synchronous_commit=on max_connections=400"
	statements = " shared_preload_libraries=pg_stat_statements pg_stat_statements.track_planning=on"
	settingVar = "PGLEADER_POSTGRES_SETTINGS"
)

// start runs the server. What the environment sets in PGLEADER_POSTGRES_SETTINGS counts more than
// what is wanted here.
func start(ctx context.Context) (*pgtest.Server, error) {
	own := os.Getenv(settingVar)
	os.Setenv(settingVar, durable+statements+" "+own)
	server, err := pgtest.Start(ctx)
	if err != nil { // perhaps only for want of the extension
		os.Setenv(settingVar, durable+" "+own)
		server, err = pgtest.Start(ctx)
	}
	return server, err
}

// describe says what the numbers depend on.
func describe(ctx context.Context, server *pgtest.Server, admin *sql.DB) (string, error) {
	words := []string{
		fmt.Sprintf("%d cores, %s/%s, %s",
			runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version()),
		fmt.Sprintf("PostgreSQL %s (%s) on the same machine", server.Version, server.Kind()),
	}
	for _, name := range []string{
		"fsync", "synchronous_commit", "wal_sync_method", "full_page_writes", "shared_buffers",
	} {
		var value string
		err := admin.QueryRowContext(ctx, "SELECT current_setting($1)", name).Scan(&value)
		if err != nil {
			return "", err
		}
		words = append(words, name+" "+value)
	}
	return strings.Join(words, "; "), nil
}

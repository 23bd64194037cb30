// Package migrations creates and upgrades the tables of pgleader.
//
// For most programs, [Up] at the start is all there is to it. A team that applies migrations in its
// deploy pipeline runs the same files with the golang-migrate command line tool instead. A version
// table of their own lets them live beside the application's migrations:
//
//	migrate -path migrations -database "$DATABASE_URL?x-migrations-table=leader_schema_migrations" up
//
// Both keep the same books and take the same lock: use either, or both at the same time. Any other
// tool that reads numbered SQL files can take them from [FS]; call Up or such a tool, not both.
package migrations

import "embed"

// FS holds the numbered up and down migrations, in golang-migrate's naming. Each file runs as one
// transaction.
//
//go:embed *.sql
var FS embed.FS

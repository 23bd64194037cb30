// Package migrations holds the schema of pgleader, for Up, for the golang-migrate command line tool, and for any other tool that
// reads numbered SQL files from an fs.FS.
package migrations

import "embed"

// FS holds the numbered up and down migrations, in golang-migrate's naming.
//
//go:embed *.sql
var FS embed.FS

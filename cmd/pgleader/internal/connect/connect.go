// Package connect opens the database that a user of pgleader names.
package connect

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/words"
)

// Timeout bounds a login where the URL does not say. Without a limit one on a dead path never ends.
const Timeout = 5 * time.Second

// Open returns a pool on the database that the URL, or else DATABASE_URL, or else the PG* variables
// name. It does not connect. An error says which of them cannot be used, and shows no password.
func Open(url string) (*sql.DB, error) {
	source := "--database-url"
	if url == "" {
		url, source = os.Getenv("DATABASE_URL"), "DATABASE_URL"
	}
	if url == "" {
		source = "the PG* variables"
	}
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, words.WithHint(fmt.Errorf("%s cannot be used: %w", source, withoutURL(err)),
			"write postgres://user:password@host:5432/database, "+
				"with special characters in the password percent-encoded")
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = Timeout
	}
	if config.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement &&
		!strings.Contains(url, "default_query_exec_mode") {
		// Prepared statements do not survive a pooler in transaction mode. At 3 a.m. nobody should
		// have to know that.
		config.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "pgleader"
	}
	// A ping before every use of an idle connection would double the round trips; the library asks
	// again by itself.
	never := func(context.Context, stdlib.ShouldPingParams) bool { return false }
	return stdlib.OpenDB(*config, stdlib.OptionShouldPing(never)), nil
}

// quoted finds what a message quotes.
var quoted = regexp.MustCompile("\"[^\"]*\"|`[^`]*`")

// withoutURL gives the reason in a message that shows the URL, without what the reason quotes. That
// may be a part of the password, such as what follows a space in it. The driver masks a password
// only as far as it can tell what it is.
func withoutURL(err error) error {
	text := err.Error()
	var parse *pgconn.ParseConfigError
	if errors.As(err, &parse) {
		_, reason, found := strings.Cut(text, "`: ")
		if !found || strings.Contains(parse.ConnString, "`") {
			reason = "it cannot be parsed"
		}
		text = reason
	}
	return errors.New(quoted.ReplaceAllString(text, "…"))
}

// Now asks the database for its time. It needs no table, so it does not miss one that is not there.
func Now(ctx context.Context, pool *sql.DB) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	var now time.Time
	if err := pool.QueryRowContext(ctx, "SELECT clock_timestamp()").Scan(&now); err != nil {
		return time.Time{}, fmt.Errorf("ask for the database's time: %w", err)
	}
	return now, nil
}

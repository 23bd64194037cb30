package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/migrations"
)

// connectTimeout bounds a login where the URL does not say. Without a limit one on a dead path never ends.
const connectTimeout = 5 * time.Second

// open returns a pool on the database that the user named. It does not connect.
func (a *app) open() (*sql.DB, error) {
	text, source := a.databaseURL, "--database-url"
	if text == "" {
		text, source = os.Getenv("DATABASE_URL"), "DATABASE_URL"
	}
	config, err := pgx.ParseConfig(text)
	if err != nil {
		if text == "" {
			source = "the PG* variables"
		}
		// The driver's message shows the URL; the password in it is masked, but only if the URL could be parsed.
		return nil, hint(fmt.Errorf("%s cannot be used: %w", source, withoutURL(err)),
			"write postgres://user:password@host:5432/database, with special characters in the password percent-encoded")
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "pgleader"
	}
	// A ping before every use of an idle connection would double the round trips; the library asks again by itself.
	return stdlib.OpenDB(*config, stdlib.OptionShouldPing(func(context.Context, stdlib.ShouldPingParams) bool { return false })), nil
}

// withoutURL strips a message of the URL, which may hold a password.
func withoutURL(err error) error {
	var parse *pgconn.ParseConfigError
	if errors.As(err, &parse) && parse.Unwrap() != nil {
		err = parse.Unwrap()
	}
	var bad *url.Error
	if errors.As(err, &bad) {
		err = bad.Err
	}
	return err
}

// advice says what to do about an error, or nothing.
func advice(err error) string {
	var hinted hintError
	if errors.As(err, &hinted) {
		return hinted.hint
	}
	switch {
	case errors.Is(err, leader.ErrNotMigrated):
		return "run 'pgleader migrate up' once, with a role that may create tables; if that was done, check the search_path and the database's name"
	case errors.Is(err, leader.ErrReadOnly), errors.Is(err, migrations.ErrReadOnly):
		return "connect to the primary; with several hosts in the URL add target_session_attrs=read-write"
	case errors.Is(err, migrations.ErrLocked):
		return "another migration or a long transaction holds it; run the command again when that has ended"
	}
	var server *pgconn.PgError
	if errors.As(err, &server) {
		return serverAdvice(server)
	}
	var dns *net.DNSError
	var refused *net.OpError
	switch {
	case errors.As(err, &dns):
		return "check the host name in --database-url, DATABASE_URL or PGHOST"
	case errors.As(err, &refused):
		return "check that Postgres runs, and the host and port in --database-url, DATABASE_URL or the PG* variables"
	case errors.Is(err, context.DeadlineExceeded):
		return "the database did not answer; check the network and pg_stat_activity for locks"
	}
	return ""
}

// serverAdvice is advice for an error that the server sent, by its SQLSTATE.
func serverAdvice(err *pgconn.PgError) string {
	switch err.Code {
	case "28P01", "28000": // invalid_password, invalid_authorization_specification
		return "check user and password in --database-url, DATABASE_URL or the PG* variables, and the server's pg_hba.conf"
	case "3D000": // invalid_catalog_name
		return "check the database's name at the end of the URL, or PGDATABASE"
	case "42501": // insufficient_privilege
		return "grant the role what docs/operations.md lists under Rights; 'pgleader doctor' shows what is missing"
	case "53300": // too_many_connections
		return "the server has no connection left; raise max_connections or put a pooler in front"
	case "57P03": // cannot_connect_now
		return "the server is starting up or shutting down; try again"
	}
	return ""
}

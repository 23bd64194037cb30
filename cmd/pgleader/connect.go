package main

import (
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
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
		// The driver masks the password in the URL that it shows, as far as it can tell what is the password.
		return nil, hint(fmt.Errorf("%s cannot be used: %w", source, withoutURL(err)),
			"write postgres://user:password@host:5432/database, with special characters in the password percent-encoded")
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	if config.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement && !strings.Contains(text, "default_query_exec_mode") {
		// Prepared statements do not survive a pooler in transaction mode, and at 3 a.m. nobody should have to know that.
		config.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "pgleader"
	}
	// A ping before every use of an idle connection would double the round trips; the library asks again by itself.
	never := func(context.Context, stdlib.ShouldPingParams) bool { return false }
	return stdlib.OpenDB(*config, stdlib.OptionShouldPing(never)), nil
}

// quoted finds what a message quotes.
var quoted = regexp.MustCompile("\"[^\"]*\"|`[^`]*`")

// withoutURL gives the reason in a message that shows the URL, without what the reason quotes: that may be a part of the
// password, such as what follows a space in it.
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

// noise is what pgx and net say beside the cause.
var noise = regexp.MustCompile(`(server error|dial error|tls error|hostname resolving error): |dial \w+ \S+: connect: `)

// withoutDriver gives the message of an error, with what pgx says of a failed connection, a line for every address that
// was tried, in fewer words.
func withoutDriver(err error) string {
	text := err.Error()
	var failed *pgconn.ConnectError
	if !errors.As(err, &failed) {
		return text
	}
	var causes []string
	for line := range strings.Lines(failed.Unwrap().Error()) {
		cause := noise.ReplaceAllString(strings.TrimSpace(line), "")
		if !slices.Contains(causes, cause) {
			causes = append(causes, cause)
		}
	}
	short := fmt.Sprintf("cannot connect to database %q as %q: %s", failed.Config.Database, failed.Config.User,
		strings.Join(causes, "; "))
	return strings.Replace(text, failed.Error(), short, 1)
}

// advice says what to do about an error, or nothing.
func advice(err error) string {
	var hinted hintError
	if errors.As(err, &hinted) {
		return hinted.hint
	}
	switch {
	case errors.Is(err, leader.ErrNotMigrated):
		return "run 'pgleader migrate up' once, with a role that may create tables; if that was done, check the search_path " +
			"and the database's name"
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
	var unverified *tls.CertificateVerificationError
	switch {
	case errors.As(err, &unverified):
		return "give the server's authority by sslrootcert, or check the host name; sslmode=require encrypts without asking " +
			"who it is"
	case strings.Contains(err.Error(), "read only connection"): // pgx has no type for it
		return "none of the hosts takes writes; during a failover try again, else check target_session_attrs"
	case strings.Contains(err.Error(), "server refused TLS connection"):
		return "the server has no TLS; add sslmode=disable if the network between can be trusted"
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
	code := err.Code
	if code == "08P01" && strings.Contains(err.Message, "authentication failed") { // PgBouncer's, before it had another
		code = "28P01"
	}
	switch code {
	case "28P01", "28000": // invalid_password, invalid_authorization_specification
		return "check user and password in --database-url, DATABASE_URL or the PG* variables, and the server's pg_hba.conf"
	case "3D000": // invalid_catalog_name
		return "check the database's name at the end of the URL, or PGDATABASE"
	case "42501": // insufficient_privilege
		return "grant the role what docs/operations.md lists under Rights; 'pgleader doctor' shows what is missing"
	case "08P01": // protocol_violation, by which PgBouncer refuses a parameter that it does not know
		return "behind PgBouncer remove the parameter from the URL, or list it in its ignore_startup_parameters"
	case "53300": // too_many_connections
		return "the server has no connection left; raise max_connections or put a pooler in front"
	case "57P03": // cannot_connect_now
		return "the server is starting up or shutting down; try again"
	}
	return ""
}

// Package explain says in plain words what an error of a database means, and what to do about it.
package explain

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/words"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/migrations"
)

// Message is an error on one line, without the names of packages, and without what the driver says
// beside the cause. No error, nil, is "".
func Message(err error) string {
	if err == nil {
		return ""
	}
	text := words.OneLine(withoutDriver(err))
	for _, name := range []string{"schedule: ", "leader: ", "pgleader: ", "migrations: "} {
		text = strings.TrimPrefix(text, name)
		text = strings.ReplaceAll(text, ": "+name, ": ")
	}
	return text
}

// noise is what pgx and net say beside the cause.
var noise = regexp.MustCompile(
	`(server error|dial error|tls error|hostname resolving error): |dial \w+ \S+: connect: `)

// withoutDriver gives the message of an error. What pgx says of a failed connection, a line for
// every address that was tried, becomes one line with each cause once.
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
	short := fmt.Sprintf("cannot connect to database %q as %q: %s",
		failed.Config.Database, failed.Config.User, strings.Join(causes, "; "))
	return strings.Replace(text, failed.Error(), short, 1)
}

// Advice says what to do about an error: its hint, if it has one, or what the kind of error asks
// for. It is "" if there is nothing to say.
func Advice(err error) string {
	if hint, ok := words.HintOf(err); ok {
		return hint
	}
	switch {
	case errors.Is(err, leader.ErrNotMigrated):
		return "run 'pgleader migrate up' once, with a role that may create tables; " +
			"if that was done, check the search_path and the database's name"
	case errors.Is(err, leader.ErrReadOnly), errors.Is(err, migrations.ErrReadOnly):
		return "connect to the primary; with several hosts in the URL add " +
			"target_session_attrs=read-write"
	case errors.Is(err, migrations.ErrLocked):
		return "another migration or a long transaction holds it; " +
			"run the command again when that has ended"
	}
	var server *pgconn.PgError
	if errors.As(err, &server) {
		return serverAdvice(server)
	}
	return networkAdvice(err)
}

// serverAdvice is advice for an error that the server sent, by its SQLSTATE.
func serverAdvice(err *pgconn.PgError) string {
	code := err.Code
	if code == "08P01" && strings.Contains(err.Message, "authentication failed") {
		code = "28P01" // PgBouncer's, before it had another
	}
	switch code {
	case "28P01", "28000": // invalid_password, invalid_authorization_specification
		return "check user and password in --database-url, DATABASE_URL or the PG* variables, " +
			"and the server's pg_hba.conf"
	case "3D000": // invalid_catalog_name
		return "check the database's name at the end of the URL, or PGDATABASE"
	case "42501": // insufficient_privilege
		return "grant the role what docs/operations.md lists under Rights; " +
			"'pgleader doctor' shows what is missing"
	case "08P01": // protocol_violation, by which PgBouncer refuses a parameter that it does not know
		return "behind PgBouncer remove the parameter from the URL, " +
			"or list it in its ignore_startup_parameters"
	case "53300": // too_many_connections
		return "the server has no connection left; raise max_connections or put a pooler in front"
	case "57P03": // cannot_connect_now
		return "the server is starting up or shutting down; try again"
	}
	return ""
}

// networkAdvice is advice for an error on the way to the server.
func networkAdvice(err error) string {
	var dns *net.DNSError
	var refused *net.OpError
	var unverified *tls.CertificateVerificationError
	switch {
	case errors.As(err, &unverified):
		return "give the server's authority by sslrootcert, or check the host name; " +
			"sslmode=require encrypts without asking who it is"
	case strings.Contains(err.Error(), "read only connection"): // pgx has no type for it
		return "none of the hosts takes writes; during a failover try again, " +
			"else check target_session_attrs"
	case strings.Contains(err.Error(), "server refused TLS connection"):
		return "the server has no TLS; add sslmode=disable if the network between can be trusted"
	case errors.As(err, &dns):
		return "check the host name in --database-url, DATABASE_URL or PGHOST"
	case errors.As(err, &refused):
		return "check that Postgres runs, and the host and port in --database-url, DATABASE_URL " +
			"or the PG* variables"
	case errors.Is(err, context.DeadlineExceeded):
		return "the database did not answer; check the network and pg_stat_activity for locks"
	}
	return ""
}

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/rogpeppe/go-internal/testscript"
)

// setNames gives scripts the job names that cannot be written down in them.
func setNames(env *testscript.Env) {
	env.Setenv("LONG", strings.Repeat("n", 300))
	env.Setenv("TOO_LONG", strings.Repeat("n", 1025))
	env.Setenv("BAD_UTF8", "caf\xe9")
	env.Setenv("TWO_LINES", "two\nlines")
}

// exitsCommand is exec for a program that must exit with exactly this status:
//
//	exits 3 pgleader check
func exitsCommand(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	status := 0
	if errors.As(err, &exit) {
		status = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(status) != args[0] {
		ts.Fatalf("exit status %d, want %s", status, args[0])
	}
}

// sqlCommand executes SQL, of any number of statements, in the script's database:
//
//	sql 'INSERT …'
//	sql -f FILE
//	sql -on EMPTY_URL 'CREATE …'
//
// In a text \n is a newline.
func sqlCommand(ts *testscript.TestScript, neg bool, args []string) {
	variable := "DATABASE_URL"
	if len(args) > 2 && args[0] == "-on" {
		variable, args = args[1], args[2:]
	}
	var text string
	switch {
	case len(args) == 2 && args[0] == "-f":
		text = ts.ReadFile(args[1])
	case len(args) == 1:
		text = strings.ReplaceAll(args[0], `\n`, "\n")
	default:
		ts.Fatalf("usage: sql [-on VARIABLE] TEXT, or sql [-on VARIABLE] -f FILE")
	}
	err := execute(ts.Getenv(variable), text)
	if failed := err != nil; failed != neg {
		ts.Fatalf("sql: %v", err)
	}
}

func execute(rawURL, text string) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, rawURL)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.PgConn().Exec(ctx, text).ReadAll()
	return err
}

// urlCommand puts a variation of the script's DATABASE_URL into a variable:
//
//	url BAD_URL host=nowhere.invalid password=wrong
//
// The keys are user, password, host, port and path; others are parameters.
func urlCommand(ts *testscript.TestScript, _ bool, args []string) {
	u, err := url.Parse(ts.Getenv("DATABASE_URL"))
	ts.Check(err)
	query := u.Query()
	for _, arg := range args[1:] {
		key, value, _ := strings.Cut(arg, "=")
		password, _ := u.User.Password()
		switch key {
		case "user":
			u.User = url.UserPassword(value, password)
		case "password":
			u.User = url.UserPassword(u.User.Username(), value)
		case "host":
			u.Host = value + ":" + u.Port()
		case "port":
			u.Host = u.Hostname() + ":" + value
		case "path":
			u.Path = value
		default:
			query.Set(key, value)
		}
	}
	u.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20") // pgx takes a plus for a plus
	ts.Setenv(args[0], u.String())
}

// roleCommand makes a role, gives it rights, and puts its URL into a variable. In the text ROLE
// stands for its name:
//
//	role READER_URL 'GRANT SELECT ON leader_lease TO ROLE'
func roleCommand(ts *testscript.TestScript, _ bool, args []string) {
	admin := ts.Getenv("DATABASE_URL")
	name := "pgtest_role_" + strings.ToLower(rand.Text()[:12]) // roles belong to the whole server
	ts.Check(execute(admin, fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD 'secret'", name)))
	ts.Defer(func() { _ = execute(admin, fmt.Sprintf("DROP OWNED BY %s; DROP ROLE %s", name, name)) })
	for _, grant := range args[1:] {
		ts.Check(execute(admin, strings.ReplaceAll(grant, "ROLE", name)))
	}
	urlCommand(ts, false, []string{args[0], "user=" + name, "password=secret"})
}

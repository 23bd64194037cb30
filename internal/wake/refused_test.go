package wake_test

import (
	"crypto/rand"
	"database/sql"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lib/pq"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/internal/wake"
)

const password = "s3cr3t"

// asRole creates a role and returns the URL for it.
func asRole(t *testing.T, admin *sql.DB, rawURL, options string) (role, roleURL string) {
	t.Helper()
	role = "pgtest_" + strings.ToLower(rand.Text())
	exec(t, admin, `CREATE ROLE `+role+` PASSWORD '`+password+`' `+options)
	t.Cleanup(func() { exec(t, admin, `DROP ROLE `+role) })
	return role, edited(t, rawURL, func(u *url.URL, _ url.Values) {
		u.User = url.UserPassword(role, password)
	})
}

func TestWhatWaitingCannotMendIsReturnedAtOnce(t *testing.T) {
	t.Parallel()
	rawURL := pgtest.NewURL(t)
	admin := pgtest.Open(t, "pgx", rawURL)
	var name, tls string
	settings := admin.QueryRow(`SELECT current_database(), current_setting('ssl')`)
	if err := settings.Scan(&name, &tls); err != nil {
		t.Fatal(err)
	}
	exec(t, admin, `REVOKE CONNECT ON DATABASE `+pgx.Identifier{name}.Sanitize()+` FROM PUBLIC`)
	_, forbidden := asRole(t, admin, rawURL, "LOGIN")
	_, noLogin := asRole(t, admin, rawURL, "NOLOGIN")
	asUser := func(user string) string {
		return edited(t, rawURL, func(u *url.URL, _ url.Values) {
			u.User = url.UserPassword(user, password)
		})
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	noDatabase := edited(t, rawURL, func(u *url.URL, _ url.Values) { u.Path = "/none" })
	const user, setting = "check user and password", "remove from Config.URL"
	for what, refused := range map[string]struct{ url, state, advice string }{
		"wrong password":       {asUser(u.User.Username()), "28P01", user},
		"unknown role":         {asUser("nobody"), "28P01", user},
		"no right to log in":   {noLogin, "28000", user},
		"unknown database":     {noDatabase, "3D000", "check the database's name"},
		"no right to connect":  {forbidden, "42501", "GRANT CONNECT"},
		"unknown setting":      {withParam(t, rawURL, "no_such_setting", "1"), "42704", setting},
		"setting out of range": {withParam(t, rawURL, "work_mem", "none"), "22023", setting},
		"no TLS":               {withParam(t, rawURL, "sslmode", "require"), "", "sslmode=disable"},
	} {
		if refused.state == "" && tls == "on" {
			continue
		}
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			forEachListener(t, func(t *testing.T, name string) {
				l := start(t, name, refused.url)
				err := l.end(t)
				if err == nil {
					t.Fatal("Listen = nil")
				}
				if sqlState(err) != refused.state || !strings.Contains(err.Error(), refused.advice) {
					t.Errorf("Listen = %v, want %s, %q", err, refused.state, refused.advice)
				}
				if !strings.HasPrefix(err.Error(), name+": ") || strings.Contains(err.Error(), password) {
					t.Errorf("Listen = %v, want the package's name and no password", err)
				}
				var ofPQ *pq.Error
				var ofPGX *pgconn.ConnectError
				if refused.state != "" && !errors.As(err, &ofPQ) && !errors.As(err, &ofPGX) {
					t.Errorf("Listen = %v, without the driver's error", err)
				}
				if n, log := l.lines(slog.LevelWarn); n != 0 {
					t.Errorf("what is returned was logged too: %s", log)
				}
			})
		})
	}
}

// A password that is rotated in the database first must not leave a listener silent for ever.
func TestPasswordThatBecomesWrongEndsTheListener(t *testing.T) {
	t.Parallel()
	forEachListener(t, func(t *testing.T, name string) {
		rawURL := pgtest.NewURL(t)
		admin := pgtest.Open(t, "pgx", rawURL)
		role, roleURL := asRole(t, admin, rawURL, "LOGIN")
		l := start(t, name, roleURL)
		eventually(t, "the listener to listen", func() bool { return l.wokeTimes() > 0 })
		exec(t, admin, `ALTER ROLE `+role+` PASSWORD 'another'`)
		exec(t, admin, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1`, role)
		if err := l.end(t); sqlState(err) != "28P01" {
			t.Errorf("Listen = %v, want the server's refusal", err)
		}
	})
}

func TestUnusableConfigIsRefusedWithoutItsPassword(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"postgres://ada:s3cr3t@localhost:port/app",
		"postgres://ada:s3cr3t/12@localhost/app",
		"postgres://ada:s3cr3t%et@localhost/app",
		"postgres://ada:s3cr3t x@localhost/app",
		"postgres://ada:s3cr3t#x@localhost/app",
		"postgres://ada:`: s3cr3t`: x@localhost:x/app",
		"postgres://ada:12/s3cr3t@localhost/app",
		"postgres://ada:12/s3cr3t@localhost/app?sslmode=never",
		"postgres://ada:12?s3cr3t@localhost/app&sslmode=never",
		"postgres://ada:s3cr3t@localhost/app?sslmode=never",
		"postgres://ada:s3cr3t@localhost/app?sslmode=s3cr3t",
		"postgres://localhost/app?user=ada&password=s3cr3t&sslmode=never",
		"host=localhost password=s3cr3t port=x",
		"host=localhost password='s3cr3t",
		"host=localhost password=a s3cr3t port=5432",
		"mysql://ada:s3cr3t@localhost/app",
		"s3cr3t",
	} {
		forEachListener(t, func(t *testing.T, name string) {
			err := refusal(t, start(t, name, text))
			if strings.Contains(err.Error(), password) {
				t.Errorf("%s: %v", text, err)
			}
		})
	}
}

// refusal waits for the error of a URL, returned or, if the driver can read it after all, reported.
func refusal(t *testing.T, l *listening) (err error) {
	t.Helper()
	eventually(t, "an error", func() bool {
		select {
		case err = <-l.ended:
			if !strings.Contains(err.Error(), "Config.URL ") ||
				!strings.Contains(err.Error(), "write ") {
				t.Errorf("Listen = %v, want to be told what to write", err)
			}
		default:
			if reported := l.failures(); len(reported) > 0 {
				err = reported[0]
			}
		}
		return err != nil
	})
	return err
}

func TestUnusableURLSaysWhyWhereThatIsSafe(t *testing.T) {
	t.Parallel()
	forEachListener(t, func(t *testing.T, name string) {
		err := start(t, name, "postgres://ada:s3cr3t@localhost/app?sslmode=never").end(t)
		if !strings.Contains(err.Error(), "sslmode") {
			t.Errorf("Listen = %v, want the driver's reason", err)
		}
		if errors.Unwrap(err) == nil {
			t.Errorf("Listen = %v, without the driver's error", err)
		}
	})
}

func TestListenerWithoutAnElectorIsRefused(t *testing.T) {
	t.Parallel()
	forEachListener(t, func(t *testing.T, name string) {
		err := listeners[name](t.Context(), wake.Config{URL: "postgres://localhost:1/none"})
		if err == nil || !strings.Contains(err.Error(), "Config.Wake is nil") {
			t.Errorf("Listen = %v, want to be told of Wake", err)
		}
	})
}

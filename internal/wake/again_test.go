package wake_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/internal/wake"
)

// at makes the URL lead to another address, without TLS.
func at(t *testing.T, rawURL, address string) string {
	t.Helper()
	return edited(t, rawURL, func(u *url.URL, query url.Values) {
		u.Host = address
		query.Set("sslmode", "disable")
	})
}

// serve accepts connections at an address of its own, until the test ends. It returns the address.
func serve(t *testing.T, handle func(conn net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
			go handle(conn)
		}
	}()
	return listener.Addr().String()
}

func TestServerThatIsDownIsReportedOnceAndSoIsItsReturn(t *testing.T) {
	t.Parallel()
	forEachListener(t, func(t *testing.T, name string) {
		rawURL := pgtest.NewURL(t)
		u, err := url.Parse(rawURL)
		if err != nil {
			t.Fatal(err)
		}
		var attempts atomic.Int32
		l := start(t, name, at(t, rawURL, serve(t, func(conn net.Conn) {
			defer conn.Close()
			if attempts.Add(1) <= 3 {
				return
			}
			server, err := net.Dial("tcp", u.Host)
			if err != nil {
				t.Error(err)
				return
			}
			go io.Copy(server, conn)
			io.Copy(conn, server)
		})))
		eventually(t, "the listener to listen", func() bool { return l.wokeTimes() > 0 })
		eventually(t, "the line that says so", func() bool {
			n, _ := l.lines(slog.LevelInfo)
			return n > 0
		})
		warnings, log := l.lines(slog.LevelWarn)
		if n, _ := l.lines(slog.LevelInfo); warnings != 1 || n != 1 || !strings.Contains(log, "after=") {
			t.Errorf("want one warning of three failures, and one line of the end:\n%s", log)
		}
		if got := len(l.failures()); got != 1 || attempts.Load() != 4 {
			t.Errorf("%d errors of %d attempts, want 1 of 4", got, attempts.Load())
		}
	})
}

func TestKilledConnectionIsReportedAndEveryoneWokenWhenItIsBack(t *testing.T) {
	t.Parallel()
	forEachListener(t, func(t *testing.T, name string) {
		rawURL := pgtest.NewURL(t)
		admin := pgtest.Open(t, "pgx", rawURL)
		l := start(t, name, withParam(t, rawURL, "application_name", "listener"))
		for kills := 1; kills <= 2; kills++ {
			eventually(t, "everyone to be woken", func() bool { return l.wokeTimes() == kills })
			exec(t, admin, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE `+
				`application_name = 'listener' AND datname = current_database()`)
			eventually(t, "the report", func() bool { return len(l.failures()) == kills })
			if err := l.failures()[kills-1]; sqlState(err) != "57P01" {
				t.Errorf("reported %v, want the server's reason", err)
			}
		}
		eventually(t, "everyone to be woken", func() bool { return l.wokeTimes() == 3 })
		warnings, log := l.lines(slog.LevelWarn)
		if n, _ := l.lines(slog.LevelInfo); warnings != 2 || n != 2 {
			t.Errorf("want two rows of failures:\n%s", log)
		}
		exec(t, admin, `NOTIFY leader_lease, 'nightly-report'`)
		eventually(t, "the notification", func() bool { return l.wokeTimes() == 4 })
		l.stop()
		if err := l.end(t); !errors.Is(err, context.Canceled) {
			t.Errorf("Listen = %v, want the context's error", err)
		}
	})
}

// A path that is gone without a word, as when a router forgets its connections.
func TestFrozenConnectionIsReportedAndReplaced(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a ping, which takes 40 s")
	}
	t.Parallel()
	forEachListener(t, func(t *testing.T, name string) {
		proxy := pgtest.NewProxy(t, pgtest.NewURL(t))
		l := start(t, name, proxy.URL)
		eventually(t, "the listener to listen", func() bool { return l.wokeTimes() == 1 })
		frozen := time.Now()
		proxy.FreezeOpen()
		eventually(t, "the listener to be back", func() bool { return l.wokeTimes() == 2 })
		if quiet := time.Since(frozen); quiet < wake.PingEvery-time.Second {
			t.Errorf("given up for being quiet for %v, without a ping", quiet)
		}
		if got := len(l.failures()); got != 1 {
			t.Errorf("%d reports, want 1", got)
		}
	})
}

// silentServers never answer one message of a client's. They report when they have it.
var silentServers = map[string]func(conn net.Conn, reached func()){
	"login": func(conn net.Conn, reached func()) {
		read(conn)
		reached()
	},
	"LISTEN": func(conn net.Conn, reached func()) {
		read(conn)
		conn.Write([]byte("R\x00\x00\x00\x08\x00\x00\x00\x00")) // AuthenticationOk
		conn.Write([]byte("Z\x00\x00\x00\x05I"))                // ReadyForQuery
		if strings.Contains(read(conn), "LISTEN") {
			reached()
		}
	},
}

// read reads what a client sends at one time.
func read(conn net.Conn) string {
	text := make([]byte, 1024)
	n, _ := conn.Read(text)
	return string(text[:n])
}

func TestSilentServerIsReported(t *testing.T) {
	t.Parallel()
	for when, silent := range silentServers {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			forEachListener(t, func(t *testing.T, name string) {
				address := serve(t, func(conn net.Conn) { silent(conn, func() {}) })
				l := start(t, name, at(t, "postgres://ada@/app?connect_timeout=1", address))
				eventually(t, "the report", func() bool { return len(l.failures()) == 1 })
				if l.wokeTimes() > 0 {
					t.Error("it woke its candidates before it listened")
				}
			})
		})
	}
}

// With two hosts and no connect_timeout, the first must not use up the time of the second.
func TestSilentHostLeavesTimeForTheNext(t *testing.T) {
	t.Parallel()
	forEachListener(t, func(t *testing.T, name string) {
		silent := serve(t, func(net.Conn) {})
		u, err := url.Parse(pgtest.NewURL(t))
		if err != nil {
			t.Fatal(err)
		}
		_, port, err := net.SplitHostPort(silent)
		if err != nil {
			t.Fatal(err)
		}
		password, _ := u.User.Password()
		l := start(t, name, fmt.Sprintf("host=127.0.0.1,%s port=%s,%s user=%s dbname=%s "+
			"sslmode=disable password='%s'", u.Hostname(), port, u.Port(), u.User.Username(),
			strings.TrimPrefix(u.Path, "/"), password))
		eventually(t, "the listener to listen", func() bool { return l.wokeTimes() == 1 })
		if errs := l.failures(); len(errs) > 0 {
			t.Errorf("reported %v, want the second host at the first attempt", errs)
		}
	})
}

// It runs alone, for it looks at all goroutines.
func TestListenEndsWithItsContextAndLeavesNothingRunning(t *testing.T) {
	for name := range listeners {
		for when, silent := range silentServers {
			t.Run(name+" waits at "+when, func(t *testing.T) {
				reached := make(chan struct{})
				address := serve(t, func(conn net.Conn) {
					silent(conn, func() { close(reached) })
				})
				l := start(t, name, at(t, "postgres://ada@/app", address))
				select {
				case <-reached:
				case <-time.After(patience):
					t.Fatal("the listener does not come this far")
				}
				endsPromptly(t, l)
			})
		}
		t.Run(name+" waits to try again", func(t *testing.T) {
			address := serve(t, func(conn net.Conn) { conn.Close() })
			l := start(t, name, at(t, "postgres://ada@/app", address))
			eventually(t, "the report", func() bool { return len(l.failures()) == 1 })
			endsPromptly(t, l)
		})
		t.Run(name+" listens", func(t *testing.T) {
			proxy := pgtest.NewProxy(t, pgtest.NewURL(t))
			l := start(t, name, proxy.URL)
			eventually(t, "the listener to listen", func() bool { return l.wokeTimes() == 1 })
			proxy.Freeze()
			endsPromptly(t, l)
		})
	}
}

// ours is what a listener runs, in its driver too. Tests wait with their names on the stack.
var ours = regexp.MustCompile(`(lib/pq|jackc/pgx/v5[\w/]*|leader/p\w+|internal/wake)\.[^T]`)

// endsPromptly ends the context. What a driver does by itself takes longer: 10 s, or for ever.
func endsPromptly(t *testing.T, l *listening) {
	t.Helper()
	begun := time.Now()
	l.stop()
	if err := l.end(t); !errors.Is(err, context.Canceled) {
		t.Errorf("Listen = %v, want the context's error", err)
	}
	var left string
	eventually(t, "nothing runs any more", func() bool {
		stacks := make([]byte, 1<<20)
		left = string(stacks[:runtime.Stack(stacks, true)])
		return !ours.MatchString(left) || time.Since(begun) > 5*time.Second
	})
	if took := time.Since(begun); took >= 5*time.Second {
		t.Errorf("took %v, and left\n%s", took, left)
	}
}

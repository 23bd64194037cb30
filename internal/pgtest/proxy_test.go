package pgtest

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// quiet is how long a silence is watched before it counts as one.
const quiet = 100 * time.Millisecond

// rawProxy is a proxy before a server that the test plays itself, to see single bytes.
func rawProxy(t *testing.T) (*Proxy, net.Listener) {
	t.Helper()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return NewProxy(t, "postgres://user@"+server.Addr().String()+"/db"), server
}

func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", p.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func accept(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	l.(*net.TCPListener).SetDeadline(time.Now().Add(10 * time.Second))
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func send(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
}

func receive(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	got := make([]byte, len(want))
	if n, err := io.ReadFull(conn, got); err != nil || string(got) != want {
		t.Fatalf("received %q (%v), want %q", got[:n], err, want)
	}
}

func receiveNothing(t *testing.T, conn net.Conn) {
	t.Helper()
	conn.SetReadDeadline(time.Now().Add(quiet))
	buf := make([]byte, 64)
	if n, err := conn.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("received %q (%v), want nothing", buf[:n], err)
	}
}

func TestFreezeHoldsBytesBothWaysUntilThaw(t *testing.T) {
	t.Parallel()
	p, listener := rawProxy(t)
	client := dial(t, p)
	server := accept(t, listener)
	send(t, client, "before")
	receive(t, server, "before")

	p.Freeze()
	send(t, client, "question")
	send(t, server, "answer")
	late := dial(t, p)
	send(t, late, "hello")
	receiveNothing(t, server)
	receiveNothing(t, client)
	listener.(*net.TCPListener).SetDeadline(time.Now().Add(quiet))
	if _, err := listener.Accept(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the server saw a connection that was opened into a frozen path (%v)", err)
	}

	p.Thaw()
	receive(t, server, "question")
	receive(t, client, "answer")
	receive(t, accept(t, listener), "hello")
}

func TestFrozenPathHidesTheEndOfAConnection(t *testing.T) {
	t.Parallel()
	p, listener := rawProxy(t)
	client := dial(t, p)
	server := accept(t, listener)
	p.Freeze()
	client.Close()
	receiveNothing(t, server)
	p.Thaw()
	server.SetReadDeadline(time.Now().Add(10 * time.Second))
	_, err := server.Read(make([]byte, 1))
	if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("got %v, want the end of the connection", err)
	}
	server.Close()
	eventually(t, "the connection is forgotten", func() bool { return p.Connections() == 0 })
}

func TestFreezeOpenSparesNewConnections(t *testing.T) {
	t.Parallel()
	p, listener := rawProxy(t)
	old := dial(t, p)
	oldServer := accept(t, listener)
	send(t, old, "a")
	receive(t, oldServer, "a")

	p.FreezeOpen()
	send(t, old, "b")
	fresh := dial(t, p)
	freshServer := accept(t, listener)
	send(t, fresh, "c")
	receive(t, freshServer, "c")
	p.Freeze()
	p.Thaw()
	receiveNothing(t, oldServer)
	send(t, freshServer, "d")
	receive(t, fresh, "d")
}

func TestWhatIsHeldArrivesAfterItsClientHasGone(t *testing.T) {
	t.Parallel()
	p, listener := rawProxy(t)
	old := dial(t, p)
	oldServer := accept(t, listener)
	send(t, old, "a")
	receive(t, oldServer, "a")
	p.HoldOpen()
	send(t, old, "late")
	old.Close()
	retry := dial(t, p)
	retryServer := accept(t, listener)
	send(t, retry, "retry")
	receive(t, retryServer, "retry")
	receiveNothing(t, oldServer)
	p.DeliverHeld()
	receive(t, oldServer, "late")
	oldServer.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := oldServer.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("after what was held: %v, want the end of the connection", err)
	}
}

func TestCutResetsAndRefusesUntilRestore(t *testing.T) {
	t.Parallel()
	p, listener := rawProxy(t)
	client := dial(t, p)
	server := accept(t, listener)
	send(t, client, "a")
	receive(t, server, "a")
	p.Freeze()
	p.Cut()
	for _, conn := range []net.Conn{client, server} {
		conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Fatalf("got %v, want a reset", err)
		}
	}
	if _, err := net.Dial("tcp", p.address); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("dial: got %v, want a refusal", err)
	}
	p.Thaw()
	if err := p.Restore(); err != nil {
		t.Fatal(err)
	}
	send(t, dial(t, p), "b")
	receive(t, accept(t, listener), "b")
}

func TestFreezeRepliesLeavesTheOutcomeUnknown(t *testing.T) {
	t.Parallel()
	for _, driver := range Drivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			url := NewEmptyURL(t)
			p := NewProxy(t, url)
			conn, direct := connect(t, Open(t, driver, p.URL)), Open(t, driver, url)
			if _, err := conn.ExecContext(t.Context(), "CREATE TABLE written (n int)"); err != nil {
				t.Fatal(err)
			}
			p.FreezeReplies()
			done := make(chan error, 1)
			go func() {
				_, err := conn.ExecContext(context.Background(), "INSERT INTO written VALUES (1)")
				done <- err
			}()
			eventually(t, "the row is committed", func() bool {
				var n int
				return direct.QueryRow("SELECT count(*) FROM written").Scan(&n) == nil && n == 1
			})
			select {
			case err := <-done:
				t.Fatalf("the reply came through the frozen path: %v", err)
			default:
			}
			p.Thaw()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestRoundTripsAreThoseOfTheProtocol(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, driver, option string
		want                 int64
	}{
		{"lib/pq prepares first", "postgres", "", 2},
		{"lib/pq with binary_parameters", "postgres", "binary_parameters=yes", 1},
		{"pgx from its statement cache", "pgx", "", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := NewProxy(t, NewEmptyURL(t))
			conn := connect(t, Open(t, tt.driver, strings.TrimSuffix(p.URL+"&"+tt.option, "&")))
			query(t, conn) // fills pgx's cache
			before := p.RoundTrips()
			query(t, conn)
			if got := p.RoundTrips() - before; got != tt.want {
				t.Errorf("%d round trips, want %d", got, tt.want)
			}
		})
	}
}

// connect takes one connection out of the pool: pgx pings one that comes from the pool for the
// second time, or after a second.
func connect(t *testing.T, db *sql.DB) *sql.Conn {
	t.Helper()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func query(t *testing.T, conn *sql.Conn) {
	t.Helper()
	var n int
	if err := conn.QueryRowContext(t.Context(), "SELECT $1::int", 7).Scan(&n); err != nil || n != 7 {
		t.Fatalf("got %d, %v", n, err)
	}
}

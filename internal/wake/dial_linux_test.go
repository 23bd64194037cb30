package wake

import (
	"context"
	"errors"
	"net"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// deafAddress is one at which nobody answers, not even to refuse: that of a full backlog.
func deafAddress(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	loopback := &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	if err := errors.Join(syscall.Bind(fd, loopback), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(name.(*syscall.SockaddrInet4).Port))
	for range 10 {
		conn, err := net.DialTimeout("tcp", address, 200*time.Millisecond)
		if err != nil {
			return address
		}
		t.Cleanup(func() { conn.Close() })
	}
	t.Skip("this system's backlogs are never full")
	return ""
}

func TestDialEndsWithItsSession(t *testing.T) {
	t.Parallel()
	address := deafAddress(t)
	life, end := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, end)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := Dial(life)(ctx, "tcp", address)
	if err == nil {
		conn.Close()
	}
	if err == nil || ctx.Err() != nil {
		t.Errorf("Dial = %v; want it to end with the session, not with its own time", err)
	}
}

package contract_test

import (
	"context"
	"database/sql"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/lib/pq"
)

// A dialer opens a pool's connections, and counts them.
type dialer struct {
	net.Dialer
	dialled   atomic.Int64
	readLimit time.Duration // how long a read may take, if not 0
}

func (d *dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	d.dialled.Add(1)
	conn, err := d.Dialer.DialContext(ctx, network, address)
	if err != nil || d.readLimit == 0 {
		return conn, err
	}
	return impatient{conn, d.readLimit}, nil
}

// DialTimeout is for lib/pq, which asks for it but does not call it.
func (d *dialer) DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return d.DialContext(ctx, network, address)
}

func (d *dialer) open(t *testing.T, driver, url string) *sql.DB {
	t.Helper()
	var pool *sql.DB
	switch driver {
	case "postgres":
		connector, err := pq.NewConnector(url)
		if err != nil {
			t.Fatal(err)
		}
		connector.Dialer(d)
		pool = sql.OpenDB(connector)
	case "pgx":
		config, err := pgx.ParseConfig(url)
		if err != nil {
			t.Fatal(err)
		}
		config.DialFunc = d.DialContext
		pool = sql.OpenDB(stdlib.GetConnector(*config))
	}
	t.Cleanup(func() { pool.Close() })
	return pool
}

// impatient is a connection on which the server has to answer in time.
type impatient struct {
	net.Conn
	limit time.Duration
}

func (c impatient) Read(b []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.limit)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

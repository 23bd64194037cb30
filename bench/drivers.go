package main

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"net/url"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/lib/pq"

	"github.com/pgleader/pgleader/leader/pgxwake"
	"github.com/pgleader/pgleader/leader/pqwake"
)

// A driver opens pools as docs/operations.md recommends.
type driver struct {
	name      string
	connector func(url string) (sqldriver.Connector, error)
	listen    func(ctx context.Context, url string, wake func(string)) error
}

var drivers = []driver{
	{"lib/pq", connectPQ, func(ctx context.Context, url string, wake func(string)) error {
		return pqwake.Listen(ctx, pqwake.Config{URL: url, Wake: wake})
	}},
	{"pgx", connectPGX, func(ctx context.Context, url string, wake func(string)) error {
		return pgxwake.Listen(ctx, pgxwake.Config{URL: url, Wake: wake})
	}},
}

func (d driver) open(url string) (*sql.DB, error) {
	connector, err := d.connector(url)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

func connectPQ(rawURL string) (sqldriver.Connector, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, err
	}
	q := u.Query()
	q.Set("binary_parameters", "yes") // one round trip for a statement instead of two
	q.Set("connect_timeout", "5")
	u.RawQuery = q.Encode()
	return pq.NewConnector(u.String())
}

func connectPGX(rawURL string) (sqldriver.Connector, error) {
	config, err := pgx.ParseConfig(rawURL)
	if err != nil {
		return nil, err
	}
	// A ping of each connection that was idle for a second would be a second round trip for most
	// renewals.
	never := func(context.Context, stdlib.ShouldPingParams) bool { return false }
	return stdlib.GetConnector(*config, stdlib.OptionShouldPing(never)), nil
}

// pool opens a pool of at most size connections, which it keeps open. It is closed with the bench.
func (b *bench) pool(d driver, url string, size int) (*sql.DB, error) {
	pool, err := d.open(url)
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(size)
	pool.SetMaxIdleConns(size)
	b.Cleanup(func() { pool.Close() })
	return pool, nil
}

package main

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/pgleader/pgleader/leader"
)

// watched is a connector that tells when a statement without rows has returned. Among the
// statements of an elector that leads, that is a renewal of one term.
type watched struct {
	sqldriver.Connector
	returned chan time.Time // capacity 1
}

func (w watched) Connect(ctx context.Context) (sqldriver.Conn, error) {
	c, err := w.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	full, ok := c.(fullConn)
	if !ok {
		return nil, fmt.Errorf("%T lacks what database/sql makes use of", c)
	}
	return &watchedConn{full, w.returned}, nil
}

type fullConn interface {
	sqldriver.Conn
	sqldriver.ConnBeginTx
	sqldriver.ConnPrepareContext
	sqldriver.ExecerContext
	sqldriver.QueryerContext
	sqldriver.NamedValueChecker
	sqldriver.SessionResetter
}

type watchedConn struct {
	fullConn
	returned chan time.Time
}

func (c *watchedConn) ExecContext(
	ctx context.Context, query string, args []sqldriver.NamedValue,
) (sqldriver.Result, error) {
	result, err := c.fullConn.ExecContext(ctx, query, args)
	select {
	case c.returned <- time.Now():
	default:
	}
	return result, err
}

// A holder is an elector that leads one job, and whose renewals are timed.
type holder struct {
	pool     *sql.DB
	term     *leader.Term
	window   time.Duration
	returned chan time.Time
}

func (b *bench) holder(
	ctx context.Context, at place, job string, ttl, renewEvery time.Duration,
) (*holder, error) {
	connector, err := at.driver.connector(at.url)
	if err != nil {
		return nil, err
	}
	h := &holder{window: ttl - ttl/10, returned: make(chan time.Time, 1)}
	h.pool = sql.OpenDB(watched{connector, h.returned})
	b.Cleanup(func() { h.pool.Close() })
	return h, h.lead(ctx, job, ttl, renewEvery)
}

func (h *holder) lead(ctx context.Context, job string, ttl, renewEvery time.Duration) error {
	e, err := elector(h.pool, leader.Config{TTL: ttl, RenewEvery: renewEvery})
	if err != nil {
		return err
	}
	h.term, err = e.Campaign(ctx, job)
	return err
}

// renewal waits for the next renewal and says how long it took, from its sending to the driver's
// return. The library renews by itself, but Term.Until is TTL minus a tenth after the sending.
func (h *holder) renewal(ctx context.Context) (time.Duration, error) {
	before := h.term.Until()
	select {
	case <-h.returned: // an earlier one
	default:
	}
	select {
	case at := <-h.returned:
		for range 1000 { // the term is prolonged a moment later
			if until := h.term.Until(); until.After(before) {
				return at.Sub(until.Add(-h.window)), nil
			}
			time.Sleep(10 * time.Microsecond)
		}
		return 0, errors.New("a renewal has not prolonged the term")
	case <-h.term.Context().Done():
		return 0, context.Cause(h.term.Context())
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

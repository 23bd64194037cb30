package main

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/leader"
)

// patiently tries again while the database cannot be reached: a server that restarts at 02:00 must not cost the night.
func (s *slotRun) patiently(ctx context.Context, try func() error) error {
	deadline := time.Now().Add(s.retryFor)
	for said := false; ; {
		err := try()
		if err == nil || s.ran || !passes(err) || ctx.Err() != nil || !time.Now().Before(deadline) {
			return err
		}
		if !said {
			s.warn(s.job.name, "%s; trying again for %v", plainly(err), s.retryFor)
			said = true
		}
		if err := pause(ctx, min(time.Second, time.Until(deadline))); err != nil {
			return err
		}
	}
}

// passes reports whether the same may succeed a little later, without anybody doing anything about it.
func passes(err error) bool {
	if errors.Is(err, leader.ErrReadOnly) { // what a failover looks like
		return true
	}
	var server *pgconn.PgError
	if errors.As(err, &server) && len(server.Code) == 5 {
		switch server.Code[:2] {
		case "08", "40", "53", "57": // connection, rollback, resources, operator intervention
			return true
		}
		return false
	}
	var hinted hintError
	var dns *net.DNSError
	if errors.As(err, &hinted) || errors.As(err, &dns) && dns.IsNotFound {
		return false
	}
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded)
}

// pause waits, or returns the context's error when that ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// now asks the database for the time.
func (w *worker) now(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	row, err := db.New(w.pool).SurveySlots(ctx, "")
	return row.Now, err
}

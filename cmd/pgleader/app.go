package main

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"time"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/connect"
	"github.com/pgleader/pgleader/cmd/pgleader/internal/operator"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

// An app is one execution of pgleader.
type app struct {
	stdin, stdout, stderr *os.File
	databaseURL           string
}

// A session is an operator and the database that it asks.
type session struct {
	*operator.Operator
	pool *sql.DB
}

// session begins one on the database that the user named. It does not connect.
func (a *app) session() (*session, error) {
	pool, err := connect.Open(a.databaseURL)
	if err != nil {
		return nil, err
	}
	o, err := operator.New(pool)
	if err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	return &session{o, pool}, nil
}

func (s *session) close() { _ = s.pool.Close() } // nothing is left to lose

// slots are a job's latest, newest first, with its lease and the time by which to judge them.
func (s *session) slots(ctx context.Context, job string, limit int) (
	runs []schedule.Record, lease leader.Lease, now time.Time, err error,
) {
	if runs, err = s.History(ctx, job, limit); err != nil {
		return nil, leader.Lease{}, time.Time{}, err
	}
	if lease, err = s.Lease(ctx, job); err != nil { // after the slots, as the judge wants it
		return nil, leader.Lease{}, time.Time{}, err
	}
	now, err = connect.Now(ctx, s.pool)
	return runs, lease, now, err
}

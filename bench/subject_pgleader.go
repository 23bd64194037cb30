package main

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/leader"
)

// quiet renews and looks so rarely that nothing happens in the background of a measurement.
var quiet = leader.Config{TTL: time.Hour, RetryEvery: time.Hour}

// library is pgleader as a program uses it.
func library(ctx context.Context, b *bench, at place) ([]cell, error) {
	pool, tag := at.pool, at.tag
	const name = "pgleader"
	e, err := elector(pool, quiet)
	if err != nil {
		return nil, err
	}
	free, taken := "free "+tag, "taken "+tag
	if err := b.occupy(ctx, taken); err != nil {
		return nil, err
	}
	var term *leader.Term
	take := func() (err error) {
		var ok bool
		term, ok, err = e.TryAcquire(ctx, free)
		if err == nil && !ok {
			err = errors.New("a free lease was not acquired")
		}
		return err
	}
	resign := func() error {
		if term == nil {
			return nil
		}
		return term.Resign()
	}
	return []cell{
		{bench: acquire, subject: name, prepare: resign, run: take},
		{bench: release, subject: name, prepare: take, run: resign},
		{bench: renew, subject: name, timed: libraryRenewal(ctx, b, at), every: restEveryN},
		{bench: lose, subject: name, run: func() error {
			_, ok, err := e.TryAcquire(ctx, taken)
			if ok {
				err = errors.New("elected beside another")
			}
			return err
		}},
		{bench: look, subject: name, run: func() error {
			for _, err := range e.Observe(ctx, taken) { // its first look is a waiting candidate's
				return err
			}
			return ctx.Err()
		}},
	}, nil
}

// occupy lets somebody else lead the job for a day.
func (b *bench) occupy(ctx context.Context, job string) error {
	return b.exec(ctx,
		`INSERT INTO leader_lease VALUES ($1, 'other', 1, now(), now(), now() + '1 d')`, job)
}

// libraryRenewal leads for one renewal each time. So it renews nothing while others are measured.
func libraryRenewal(ctx context.Context, b *bench, at place) func() (time.Duration, error) {
	const ttl, renewEvery = 10 * time.Minute, rest
	job := "renewed " + at.tag
	var h *holder
	return func() (time.Duration, error) {
		var err error
		if h == nil {
			h, err = b.holder(ctx, at, job, ttl, renewEvery)
		} else {
			err = h.lead(ctx, job, ttl, renewEvery)
		}
		if err != nil {
			return 0, err
		}
		took, err := h.renewal(ctx)
		return took, errors.Join(err, h.term.Resign())
	}
}

// queries is package db alone, on the pool.
func queries(ctx context.Context, b *bench, at place) ([]cell, error) {
	pool, tag := at.pool, at.tag
	return queryCells(ctx, b, db.New(pool), "pgleader, generated query", "queries "+tag)
}

func queryCells(ctx context.Context, b *bench, q *db.Queries, name, job string) ([]cell, error) {
	taken := "taken " + job
	if err := errors.Join(b.occupy(ctx, taken), b.occupy(ctx, job)); err != nil {
		return nil, err
	}
	renewal := func() error {
		n, err := q.RenewLease(ctx,
			db.RenewLeaseParams{JobName: job, Holder: "other", Token: 1, TTLSeconds: 3600})
		if err == nil && n != 1 {
			err = sql.ErrNoRows
		}
		return err
	}
	return []cell{
		{bench: renew, subject: name, run: renewal},
		{bench: renew, subject: name + rested, prepare: takeRest, every: restEveryN, run: renewal},
		{bench: lose, subject: name, run: func() error {
			_, err := q.AcquireLease(ctx,
				db.AcquireLeaseParams{JobName: taken, Holder: "me", TTLSeconds: 60})
			return err
		}},
		{bench: look, subject: name, run: func() error {
			_, err := q.LookLease(ctx, taken)
			return err
		}},
		{bench: look, subject: name + ", by LookLeases", run: func() error {
			_, err := q.LookLeases(ctx, `["`+taken+`"]`)
			return err
		}},
	}, nil
}

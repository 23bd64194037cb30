//go:build unix

package main

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"os"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
)

// A site is a server with one database. Histories run there side by side, each with its own jobs.
type site struct {
	server   *pgtest.Server
	self     string
	url      string
	db       *sql.DB
	restarts bool
	calm     chan struct{} // closed when the server will stay up
}

func newSite(ctx context.Context) (s *site, err error) {
	s = &site{calm: make(chan struct{})}
	if s.self, err = os.Executable(); err != nil {
		return nil, err
	}
	if s.server, err = pgtest.Start(ctx); err != nil {
		return nil, err
	}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *site) prepare(ctx context.Context) (err error) {
	if s.url, err = s.server.CreateDatabase(ctx, true); err != nil {
		return err
	}
	if s.db, err = sql.Open("pgx", s.url); err != nil {
		return err
	}
	s.db.SetMaxOpenConns(40)
	s.db.SetMaxIdleConns(40)
	return createTables(ctx, s.db)
}

func (s *site) close() error {
	if s.db != nil {
		s.db.Close()
	}
	return s.server.Close()
}

// disturb stops and starts the server while faults go on, as an administrator does, and as a crash
// does. Between the two its disk stalls.
func (s *site) disturb(ctx context.Context, seed uint64, duration, ttl time.Duration) error {
	whole := context.WithoutCancel(ctx) // what is begun is undone
	stall := ttl/2 + within(rand.New(rand.NewPCG(seed, 3)), 2*ttl)
	for _, what := range []func() error{
		func() error { return s.server.Restart(whole, false) },
		func() error { return s.stallCommits(whole, stall) },
		func() error { return s.server.Restart(whole, true) },
	} {
		if !sleep(ctx, duration/4) {
			return nil
		}
		if err := what(); err != nil {
			return err
		}
	}
	return nil
}

// stallCommits stalls the server's disk for a while.
func (s *site) stallCommits(ctx context.Context, length time.Duration) error {
	resume, err := s.server.StallCommits(ctx)
	if err != nil {
		return err
	}
	time.Sleep(length)
	return resume()
}

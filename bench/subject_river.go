package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverdatabasesql"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
)

const peersNote = "River's SQL is run through its driver package, as its elector calls it; " +
	"pglock and warden are not served by the module proxy and are left out."

// riverURL makes a database with river's tables. River allows one leader for a schema, on an
// unlogged table, which is empty after a crash. If logged, it is an ordinary table.
func riverURL(ctx context.Context, b *bench, logged bool) (string, error) {
	url, err := b.server.CreateDatabase(ctx, false)
	if err != nil {
		return "", err
	}
	pool, err := b.pool(drivers[1], url, 1)
	if err != nil {
		return "", err
	}
	migrator, err := rivermigrate.New(riverdatabasesql.New(pool), nil)
	if err != nil {
		return "", err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return "", err
	}
	if logged {
		_, err = pool.ExecContext(ctx, `ALTER TABLE river_leader SET LOGGED`)
	}
	return url, err
}

const (
	riverTTL   = 15 * time.Second
	riverTopic = "river_leadership"
)

// riverElect is what river's elector does, be the lease free or not: four statements in a
// transaction.
func riverElect(
	ctx context.Context, exec riverdriver.Executor, id string, ttl time.Duration,
) (*riverdriver.Leader, error) {
	tx, err := exec.Begin(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := tx.LeaderDeleteExpired(ctx, &riverdriver.LeaderDeleteExpiredParams{}); err != nil {
		return nil, errors.Join(err, tx.Rollback(ctx))
	}
	leader, err := tx.LeaderAttemptElect(ctx, &riverdriver.LeaderElectParams{LeaderID: id, TTL: ttl})
	if err != nil && !errors.Is(err, rivertype.ErrNotFound) {
		return nil, errors.Join(err, tx.Rollback(ctx))
	}
	return leader, errors.Join(tx.Commit(ctx), err)
}

func riverResign(ctx context.Context, exec riverdriver.Executor, l *riverdriver.Leader) error {
	done, err := exec.LeaderResign(ctx, &riverdriver.LeaderResignParams{
		ElectedAt: l.ElectedAt, LeaderID: l.LeaderID, LeadershipTopic: riverTopic,
	})
	if err == nil && !done {
		err = errors.New("river: nothing to resign")
	}
	return err
}

func riverSubject(name string) subject {
	return func(ctx context.Context, _ *bench, at place) ([]cell, error) {
		pool := at.pool
		exec := riverdatabasesql.New(pool).GetExecutor()
		var mine *riverdriver.Leader
		empty := func() error {
			_, err := pool.ExecContext(ctx, `DELETE FROM river_leader`)
			return err
		}
		elect := func() (err error) {
			mine, err = riverElect(ctx, exec, "me", riverTTL)
			return err
		}
		elected := func() error {
			if err := empty(); err != nil {
				return err
			}
			return elect()
		}
		others := func() error {
			if err := empty(); err != nil {
				return err
			}
			_, err := riverElect(ctx, exec, "other", time.Hour)
			return err
		}
		losing := func() error {
			if _, err := riverElect(ctx, exec, "me", riverTTL); !errors.Is(err, rivertype.ErrNotFound) {
				return fmt.Errorf("river: elected beside another: %w", unexpected(err))
			}
			return nil
		}
		return []cell{
			{bench: acquire, subject: name, prepare: empty, run: elect},
			{bench: renew, subject: name, prepare: elected, run: func() error {
				_, err := exec.LeaderAttemptReelect(ctx, &riverdriver.LeaderReelectParams{
					ElectedAt: mine.ElectedAt, LeaderID: mine.LeaderID, TTL: riverTTL,
				})
				return err
			}},
			{bench: lose, subject: name, prepare: others, run: losing},
			{bench: look, subject: name, prepare: others, run: losing},
			{bench: release, subject: name, prepare: elected, run: func() error {
				return riverResign(ctx, exec, mine)
			}},
		}, nil
	}
}

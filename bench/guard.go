package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pgleader/pgleader/leader"
)

// guard measures a user's transaction of one insert, with Term.Guard and without, alone and 32 at
// once.
func (b *bench) guard(ctx context.Context) error {
	if err := b.exec(ctx, `CREATE TABLE work (
		id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, note text NOT NULL)`); err != nil {
		return err
	}
	t := &table{
		title: "a transaction with one INSERT, unguarded and guarded",
		note:  "Rounds of both alternate. Renewals go on meanwhile.",
		columns: []string{
			"at once", "subject", "driver", "n", "median µs",
			"p99 µs", "× unguarded", "transactions/s", "multixacts per 1,000",
		},
	}
	for _, together := range []int{1, 32} {
		for _, d := range drivers {
			if err := b.guardOver(ctx, d, together, t); err != nil {
				return err
			}
		}
	}
	b.tables = append(b.tables, t)
	return nil
}

func (b *bench) guardOver(ctx context.Context, d driver, together int, t *table) error {
	pool, err := b.pool(d, b.url, together)
	if err != nil {
		return err
	}
	own, err := b.pool(d, b.url, 2)
	if err != nil {
		return err
	}
	e, err := elector(own, leader.Config{TTL: 15 * time.Second, RenewEvery: time.Second})
	if err != nil {
		return err
	}
	term, err := e.Campaign(ctx, fmt.Sprintf("guard %s %d", d.name, together))
	if err != nil {
		return err
	}
	kinds := []struct {
		subject string
		guard   guarding
	}{
		{"unguarded", func(context.Context, *sql.Tx) error { return nil }},
		{"Term.Guard", term.Guard},
	}
	samples := make([][]time.Duration, len(kinds))
	multixacts, busy := make([]float64, len(kinds)), make([]time.Duration, len(kinds))
	for range b.scale(10, 2) {
		for i, k := range kinds {
			before, err := b.nextMultixact(ctx)
			if err != nil {
				return err
			}
			begun := time.Now()
			took, err := transactions(ctx, pool, together, 250*time.Millisecond, k.guard)
			if err != nil {
				return err
			}
			busy[i] += time.Since(begun)
			after, err := b.nextMultixact(ctx)
			if err != nil {
				return err
			}
			samples[i] = append(samples[i], took...)
			multixacts[i] += after - before
		}
	}
	for i, k := range kinds {
		r := row{
			Bench: fmt.Sprintf("guard, %d at once", together), Subject: k.subject, Driver: d.name,
		}.timed(samples[i])
		ratio := *r.MedianUS / micros(quantile(samples[0], 0.5))
		perThousand, rate := multixacts[i]/float64(r.N)*1000, float64(r.N)/busy[i].Seconds()
		r.Extra = map[string]float64{
			"ratio_to_unguarded": ratio, "multixacts_per_1000": perThousand, "per_second": rate,
		}
		b.rows = append(b.rows, r)
		t.add(fmt.Sprint(together), k.subject, d.name, fmt.Sprint(r.N), number(r.MedianUS),
			number(r.P99US), num(ratio), num(rate), num(perThousand))
	}
	return errors.Join(term.Resign(), pool.Close())
}

// nextMultixact is the server's counter: it lies as far ahead of 1 as mxid_age says.
func (b *bench) nextMultixact(ctx context.Context) (float64, error) {
	var next float64
	err := b.admin.QueryRowContext(ctx, `SELECT mxid_age('1'::xid)::float8`).Scan(&next)
	return next, err
}

// guarding is Term.Guard, or nothing.
type guarding func(context.Context, *sql.Tx) error

// transactions runs so many at once for a while.
func transactions(
	ctx context.Context, pool *sql.DB, together int, d time.Duration, guard guarding,
) ([]time.Duration, error) {
	var mu sync.Mutex
	var all []time.Duration
	var first error
	var wg sync.WaitGroup
	end := time.Now().Add(d)
	for range together {
		wg.Go(func() {
			var own []time.Duration
			var err error
			for err == nil && time.Now().Before(end) {
				begun := time.Now()
				err = transaction(ctx, pool, guard)
				own = append(own, time.Since(begun))
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil && first == nil {
				first = err
			}
			all = append(all, own...)
		})
	}
	wg.Wait()
	return all, first
}

func transaction(ctx context.Context, pool *sql.DB, guard guarding) error {
	tx, err := pool.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := guard(ctx, tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO work (note) VALUES ($1)`, "done"); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

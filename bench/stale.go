package main

import (
	"context"
	"fmt"
	"time"

	"github.com/pgleader/pgleader/db"
)

// staleStatistics renews many leases while the planner believes that there are none: as after many
// were taken at once, until autovacuum has counted them. What is linear must stay so.
func (b *bench) staleStatistics(ctx context.Context) error {
	const name = "renewals, statistics from an empty table"
	t := &table{
		title:   name,
		note:    "The table had 10,000 rows, was analyzed when they were gone, and then filled again.",
		columns: []string{"leases", "driver", "n", "statement: median ms", "wall µs per lease"},
	}
	for _, d := range drivers {
		for _, leases := range []int{500, 2000} {
			for _, statement := range []string{
				`DELETE FROM leader_lease WHERE job_name LIKE 'renewal %'`,
				`ALTER TABLE leader_lease SET (autovacuum_enabled = off)`,
				`ANALYZE leader_lease`,
			} {
				if err := b.exec(ctx, statement); err != nil {
					return err
				}
			}
			if err := b.exec(ctx, `INSERT INTO leader_lease
				SELECT 'renewal ' || i, 'me', i, now(), now(), now() + '1 d'
				FROM generate_series(1, $1) AS i`, leases); err != nil {
				return err
			}
			pool, err := b.pool(d, b.url, 1)
			if err != nil {
				return err
			}
			terms := renewalTerms(leases)
			var samples []time.Duration
			for range 3 {
				begun := time.Now()
				rows, err := db.New(pool).RenewLeases(ctx,
					db.RenewLeasesParams{Terms: terms, Holder: "me", TTLSeconds: 86400})
				if err != nil || len(rows) != leases {
					return fmt.Errorf("%d of %d leases renewed: %w", len(rows), leases, err)
				}
				samples = append(samples, time.Since(begun))
			}
			r := row{
				Bench: name, Subject: fmt.Sprintf("%d leases, one statement", leases), Driver: d.name,
			}.timed(samples)
			r.Extra = map[string]float64{"wall_us_per_lease": *r.MedianUS / float64(leases)}
			b.rows = append(b.rows, r)
			t.add(fmt.Sprint(leases), d.name, fmt.Sprint(r.N), millis(r.MedianUS),
				num(r.Extra["wall_us_per_lease"]))
		}
	}
	b.tables = append(b.tables, t)
	return b.exec(ctx, `ALTER TABLE leader_lease RESET (autovacuum_enabled)`)
}

package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pgleader/pgleader/db"
)

// renewals measures what one lease among many costs: renewed one by one, and all by one statement.
func (b *bench) renewals(ctx context.Context) error {
	t := &table{
		title: "renewal, per lease",
		note: "Server time is planning and execution as pg_stat_statements has it. " +
			"CPU is the backend's, with parsing and commit. Wall is what the caller waits.",
		columns: []string{
			"leases", "how", "driver", "statements", "wall µs", "server µs", "CPU µs",
			"WAL bytes", "leases/s",
		},
	}
	// How many there are in the table matters to the plan as well.
	if err := b.exec(ctx, `INSERT INTO leader_lease
		SELECT 'renewal ' || i, 'me', i, now(), now(), now() + '1 d'
		FROM generate_series(1, 10000) AS i`); err != nil {
		return err
	}
	if err := b.exec(ctx, `VACUUM ANALYZE leader_lease`); err != nil {
		return err
	}
	for _, d := range drivers {
		pool, err := b.pool(d, b.url, 1)
		if err != nil {
			return err
		}
		single := func(i int) error {
			n, err := db.New(pool).RenewLease(ctx, db.RenewLeaseParams{
				JobName: fmt.Sprint("renewal ", i+1), Holder: "me", Token: int64(i + 1), TTLSeconds: 86400,
			})
			if err == nil && n != 1 {
				err = sql.ErrNoRows
			}
			return err
		}
		all := func(n int) func(int) error {
			terms := renewalTerms(n)
			return func(int) error {
				rows, err := db.New(pool).RenewLeases(ctx,
					db.RenewLeasesParams{Terms: terms, Holder: "me", TTLSeconds: 86400})
				if err == nil && len(rows) != n {
					err = fmt.Errorf("%d of %d leases renewed", len(rows), n)
				}
				return err
			}
		}
		err = b.renewalRows(ctx, t, d, pool, []renewal{
			{1, 1, "one by one", b.scale(4000, 500), "RenewLease :", single},
			{100, 100, "one statement", b.scale(300, 30), "RenewLeases :", all(100)},
			{10_000, 10_000, "one statement", b.scale(20, 3), "RenewLeases :", all(10_000)},
			{10_000, 1000, "ten statements", b.scale(100, 10), "RenewLeases :", all(1000)},
		})
		if err != nil {
			return err
		}
	}
	b.tables = append(b.tables, t)
	if err := b.staleStatistics(ctx); err != nil {
		return err
	}
	if err := b.exec(ctx, `DELETE FROM leader_lease WHERE job_name LIKE 'renewal %'`); err != nil {
		return err
	}
	if err := b.exec(ctx, `VACUUM ANALYZE leader_lease`); err != nil {
		return err
	}
	return b.holdMany(ctx)
}

type renewal struct {
	leases int
	each   int // leases by one statement
	how    string
	times  int
	part   string // of the statement's text
	run    func(int) error
}

// renewalRows alternates between the ways in a few turns.
func (b *bench) renewalRows(
	ctx context.Context, t *table, d driver, pool *sql.DB, ways []renewal,
) error {
	const turns = 4
	b.progress("renewals: %s", d.name)
	var pid int
	if err := pool.QueryRowContext(ctx, `SELECT pg_backend_pid()`).Scan(&pid); err != nil {
		return err
	}
	type sum struct {
		wall, server, cpu, wal, statements float64
		samples                            []time.Duration
	}
	sums := make([]sum, len(ways))
	for turn := range turns {
		for i, w := range ways {
			if err := b.exec(ctx, `VACUUM leader_lease`); err != nil {
				return err
			}
			read := func() (sum, error) {
				_, server, err := b.statementTime(ctx, w.part)
				if err != nil {
					return sum{}, err
				}
				cpu, err := serverCPU(ctx, b.admin, fmt.Sprint("pid = ", pid))
				if err != nil {
					return sum{}, err
				}
				c, err := b.readCounters(ctx)
				return sum{server: server, cpu: cpu, wal: c.wal}, err
			}
			before, err := read()
			if err != nil {
				return err
			}
			for j := range (w.times + turns - 1) / turns {
				begun := time.Now()
				if err := w.run((turn*w.times/turns + j) % 10_000); err != nil {
					return err
				}
				took := time.Since(begun)
				sums[i].samples = append(sums[i].samples, took)
				sums[i].wall += took.Seconds()
				sums[i].statements++
			}
			after, err := read()
			if err != nil {
				return err
			}
			sums[i].server += after.server - before.server
			sums[i].cpu += after.cpu - before.cpu
			sums[i].wal += after.wal - before.wal
		}
	}
	for i, w := range ways {
		s := sums[i]
		leases := s.statements * float64(w.each)
		r := row{Bench: "renewals", Driver: d.name}
		r.Subject = fmt.Sprintf("%d leases, %s", w.leases, w.how)
		r.WALBytes = some(s.wal / leases)
		r = r.timed(s.samples)
		r.Extra = map[string]float64{
			"wall_us_per_lease": s.wall / leases * 1e6, "cpu_us_per_lease": s.cpu / leases * 1e6,
		}
		var server *float64
		if b.hasStatements {
			server = some(s.server / leases * 1e6)
			r.Extra["server_us_per_lease"] = *server
		}
		b.rows = append(b.rows, r)
		t.add(fmt.Sprint(w.leases), w.how, d.name, num(s.statements), num(s.wall/leases*1e6),
			number(server), num(s.cpu/leases*1e6),
			number(r.WALBytes), num(leases/s.wall))
	}
	return nil
}

func renewalTerms(n int) string {
	type wanted struct {
		Job   string `json:"job_name"`
		Token int    `json:"token"`
	}
	list := make([]wanted, n)
	for i := range list {
		list[i] = wanted{fmt.Sprint("renewal ", i+1), i + 1}
	}
	text, err := json.Marshal(list)
	check(err)
	return string(text)
}

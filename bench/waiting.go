package main

import (
	"context"
	"fmt"
	"time"

	"github.com/pgleader/pgleader/leader"
)

// waiting measures what candidates cost that only wait.
func (b *bench) waiting(ctx context.Context) error {
	t := &table{
		title: "a thousand candidates of one process, each for another job",
		columns: []string{
			"driver", "RetryEvery", "seconds", "looks at all jobs",
			"statements", "per RetryEvery", "server CPU, % of one core",
		},
	}
	for _, d := range drivers {
		if err := b.waitInOneProcess(ctx, d, t); err != nil {
			return err
		}
	}
	b.tables = append(b.tables, t)

	losers := &table{
		title: "a thousand electors that wait for one job",
		note: "They share a pool of 64 connections, RetryEvery is the default 1.5 s. The holder renews " +
			"every 50 ms on a pool of its own; " +
			"its renewals are timed without the losers, with them, and without again.",
		columns: []string{
			"driver", "losers", "statements/s", "server CPU, % of one core",
			"holder's renewal: n", "median µs", "p99 µs",
		},
	}
	for _, d := range drivers {
		if err := b.losersOnOneJob(ctx, d, losers); err != nil {
			return err
		}
	}
	b.tables = append(b.tables, losers)
	return nil
}

func (b *bench) waitInOneProcess(ctx context.Context, d driver, t *table) error {
	const jobs, retryEvery = 1000, 500 * time.Millisecond
	b.progress("waiting: %d jobs over %s", jobs, d.name)
	prefix := "waited for over " + d.name
	if err := b.exec(ctx, `INSERT INTO leader_lease
		SELECT $1 || i, 'other', 1, now(), now(), now() + '1 d'
		FROM generate_series(0, $2::int - 1) AS i`, prefix, jobs); err != nil {
		return err
	}
	if err := b.exec(ctx, `ANALYZE leader_lease`); err != nil {
		return err
	}
	pool, err := b.pool(d, b.url, 8)
	if err != nil {
		return err
	}
	all := newAudience(ctx)
	defer all.leave()
	e, err := elector(pool, leader.Config{RetryEvery: retryEvery, OnEvent: all.onEvent})
	if err != nil {
		return err
	}
	for i := range jobs {
		all.campaign(e, fmt.Sprint(prefix, i))
	}
	if err := all.seated(jobs); err != nil {
		return err
	}
	time.Sleep(time.Second)
	length := time.Duration(b.scale(10, 3)) * time.Second
	before, err := b.readLoad(ctx)
	if err != nil {
		return err
	}
	looks, _, err := b.statementTime(ctx, "-- name: LookLeases")
	if err != nil {
		return err
	}
	time.Sleep(length)
	looksAfter, _, err := b.statementTime(ctx, "-- name: LookLeases")
	if err != nil {
		return err
	}
	after, err := b.readLoad(ctx)
	if err != nil {
		return err
	}
	n := after.statements - before.statements
	r := row{Bench: "waiting", Driver: d.name, N: int(n)}
	r.Subject = fmt.Sprintf("pgleader, %d jobs in one process", jobs)
	r.Extra = map[string]float64{
		"statements_per_retry_every": n / (length.Seconds() / retryEvery.Seconds()),
		"cpu_percent":                (after.cpu - before.cpu) / length.Seconds() * 100,
	}
	b.rows = append(b.rows, r)
	t.add(d.name, retryEvery.String(), num(length.Seconds()), num(looksAfter-looks), num(n),
		num(r.Extra["statements_per_retry_every"]),
		num(r.Extra["cpu_percent"]))
	return nil
}

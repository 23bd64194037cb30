package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
)

// operations measures what each step of a lease's life costs.
func (b *bench) operations(ctx context.Context) error {
	unlogged, err := riverURL(ctx, b, false)
	if err != nil {
		return err
	}
	logged, err := riverURL(ctx, b, true)
	if err != nil {
		return err
	}
	subjects := []struct {
		url  string
		make subject
	}{
		{b.url, floor},
		{b.url, library},
		{b.url, queries},
		{b.url, textbook},
		{unlogged, riverSubject("river, unlogged table")},
		{logged, riverSubject("river, logged table")},
		{b.url, listening},
		{b.url, advisory},
		{b.url, lookFirst},
		{b.url, preparing},
	}
	var cells []cell // on a straight path
	var counted []cell
	var proxies []*pgtest.Proxy // of counted
	for _, d := range drivers {
		for i, s := range subjects {
			straight, err := b.pool(d, s.url, 3)
			if err != nil {
				return err
			}
			proxy := pgtest.NewProxy(b, s.url)
			proxied, err := b.pool(d, proxy.URL, 3)
			if err != nil {
				return err
			}
			first, err := s.make(ctx, b, place{d, s.url, straight, fmt.Sprint(d.name, i)})
			if err != nil {
				return err
			}
			second, err := s.make(ctx, b, place{d, proxy.URL, proxied, fmt.Sprint(d.name, i, " counted")})
			if err != nil {
				return err
			}
			for j := range first {
				first[j].driver, second[j].driver = d.name, d.name
				proxies = append(proxies, proxy)
			}
			cells, counted = append(cells, first...), append(counted, second...)
		}
	}
	rounds, limit := b.scale(1000, 25), time.Duration(b.scale(150, 20))*time.Second
	b.progress("operations: %d rounds of %d, for at most %v", rounds, len(cells), limit)
	samples, err := interleave(ctx, cells, rounds, limit)
	if err != nil {
		return err
	}
	b.progress("operations: counting")
	var rows []row
	for i, c := range cells {
		r := row{Bench: c.bench, Subject: c.subject, Driver: c.driver}.timed(samples[i])
		if c.run != nil {
			if err := b.count(ctx, &r, c, counted[i], proxies[i]); err != nil {
				return cellError{c, err}
			}
		}
		rows = append(rows, r)
	}
	ratios(rows)
	b.rows = append(b.rows, rows...)
	for _, name := range []string{acquire, renew, lose, look, release} {
		b.tables = append(b.tables, operationTable(name, rows))
	}
	return nil
}

// count fills in what does not depend on the machine, as the median of a few runs: something else
// may happen on the server, too.
func (b *bench) count(
	ctx context.Context, r *row, straight, proxied cell, proxy *pgtest.Proxy,
) error {
	var wal, statements, trips, allocs []float64
	for range 15 {
		if straight.prepare != nil {
			if err := straight.prepare(); err != nil {
				return err
			}
		}
		before, err := b.readCounters(ctx)
		if err != nil {
			return err
		}
		var m0, m1 runtime.MemStats
		runtime.ReadMemStats(&m0)
		err = straight.run()
		runtime.ReadMemStats(&m1)
		if err != nil {
			return err
		}
		after, err := b.readCounters(ctx)
		if err != nil {
			return err
		}
		wal = append(wal, after.wal-before.wal)
		statements = append(statements, after.statements-before.statements)
		allocs = append(allocs, float64(m1.Mallocs-m0.Mallocs))

		if proxied.prepare != nil {
			if err := proxied.prepare(); err != nil {
				return err
			}
		}
		n := proxy.RoundTrips()
		if err := proxied.run(); err != nil {
			return err
		}
		trips = append(trips, float64(proxy.RoundTrips()-n))
	}
	r.WALBytes, r.RoundTrips = some(quantile(wal, 0.5)), some(quantile(trips, 0.5))
	r.Allocs = some(quantile(allocs, 0.5))
	if b.hasStatements {
		r.Statements = some(quantile(statements, 0.5))
	}
	return nil
}

// ratios compares each row with the floor of its driver: a raw SELECT for what reads, a raw UPDATE
// for what writes.
func ratios(rows []row) {
	floors := map[string]row{}
	for _, r := range rows {
		if r.Subject == rawUpdate || r.Subject == rawSelect || r.Subject == restedRaw {
			floors[r.Subject+r.Driver] = r
		}
	}
	for i, r := range rows {
		base, ok := floors[floorOf(r)+r.Driver]
		if ok && base.N > 0 && r.N > 0 {
			rows[i].RatioToFloor = some(math.Round(*r.MedianUS / *base.MedianUS * 100) / 100)
			rows[i].RatioAtP10 = some(math.Round(*r.P10US / *base.P10US * 100) / 100)
		}
	}
}

// floorOf is what a row is compared with.
func floorOf(r row) string {
	if strings.HasSuffix(r.Subject, rested) || r.Bench == renew && r.Subject == "pgleader" {
		return restedRaw
	}
	return baseOf(r.Bench)
}

func baseOf(bench string) string {
	if bench == lose || bench == look {
		return rawSelect
	}
	return rawUpdate
}

var titles = map[string]string{
	acquire: "acquire a free lease",
	renew:   "renew one lease",
	lose:    "one-shot attempt that loses",
	look:    "a waiting candidate's look",
	release: "release",
}

func operationTable(name string, rows []row) *table {
	t := &table{
		title: titles[name],
		note: "p10 is the 10th percentile: what it costs when nothing else got in the way. " +
			"The first row is the floor, of those that rest the rested one.",
		columns: []string{
			"subject", "driver", "n", "median µs", "p99 µs", "p10 µs",
			"× floor", "at p10", "statements", "round trips", "WAL bytes", "allocations",
		},
	}
	var own []row
	for _, r := range rows {
		if r.Bench == name || r.Subject == baseOf(name) {
			own = append(own, r)
		}
	}
	slices.SortStableFunc(own, func(a, c row) int { return cmp.Compare(a.Driver, c.Driver) })
	for _, r := range own {
		t.add(r.Subject, r.Driver, fmt.Sprint(r.N), number(r.MedianUS), number(r.P99US), number(r.P10US),
			number(r.RatioToFloor), number(r.RatioAtP10), number(r.Statements),
			number(r.RoundTrips), number(r.WALBytes),
			number(r.Allocs))
	}
	return t
}

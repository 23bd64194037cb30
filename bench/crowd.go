package main

import (
	"context"
	"fmt"
	"time"

	"github.com/pgleader/pgleader/leader"
)

// crowd is a server with a thousand processes, each of which leads ten jobs and waits for ten that
// another one leads.
func (b *bench) crowd(ctx context.Context) error {
	const jobs = 10
	electors := b.scale(1000, 100)
	t := &table{
		title: fmt.Sprintf("%d electors, each leads %d jobs and waits for %d of its neighbour's",
			electors, jobs, jobs),
		note: "All durations are the defaults: TTL 15 s, RenewEvery 5 s, RetryEvery 1.5 s. " +
			"They share a pool of 64 connections.",
		columns: []string{
			"driver", "jobs", "seconds", "statements/s", "renewals/s", "looks/s",
			"server CPU, % of one core", "WAL kB/s", "terms lost",
		},
	}
	for _, d := range drivers {
		if !b.quick && d.name != "pgx" {
			continue // ten thousand elections and as many losses take minutes, and the load is alike
		}
		if err := b.crowdOver(ctx, d, electors, jobs, t); err != nil {
			return err
		}
	}
	b.tables = append(b.tables, t)
	return nil
}

func (b *bench) crowdOver(ctx context.Context, d driver, electors, jobs int, t *table) error {
	b.progress("crowd: %d electors over %s", electors, d.name)
	pool, err := b.pool(d, b.url, 64)
	if err != nil {
		return err
	}
	all := newAudience(ctx)
	crew := make([]*leader.Elector, electors)
	for i := range crew {
		if crew[i], err = elector(pool, leader.Config{OnEvent: all.onEvent}); err != nil {
			return err
		}
	}
	name := func(i, job int) string { return fmt.Sprintf("crowd %s %d %d", d.name, i%electors, job) }
	terms := make([]*leader.Term, electors*jobs)
	if err := inParallel(64, len(terms), func(i int) (err error) {
		terms[i], err = crew[i/jobs].Campaign(ctx, name(i/jobs, i%jobs))
		return err
	}); err != nil {
		return err
	}
	for i := range terms {
		all.campaign(crew[i/jobs], name(i/jobs+1, i%jobs))
	}
	if err := all.seated(len(terms)); err != nil {
		return err
	}
	b.progress("crowd: measuring")
	time.Sleep(time.Duration(b.scale(6, 1)) * time.Second) // until they renew at times of their own
	length := time.Duration(b.scale(10, 3)) * time.Second
	before, err := b.readLoad(ctx)
	if err != nil {
		return err
	}
	renewals, _, err := b.statementTime(ctx, "-- name: RenewLeases")
	if err != nil {
		return err
	}
	looks, _, err := b.statementTime(ctx, "-- name: LookLeases")
	if err != nil {
		return err
	}
	time.Sleep(length)
	renewalsAfter, _, err := b.statementTime(ctx, "-- name: RenewLeases")
	if err != nil {
		return err
	}
	looksAfter, _, err := b.statementTime(ctx, "-- name: LookLeases")
	if err != nil {
		return err
	}
	after, err := b.readLoad(ctx)
	if err != nil {
		return err
	}
	lost := 0
	for _, term := range terms {
		if term.Context().Err() != nil {
			lost++
		}
	}
	perSecond := func(n float64) float64 { return n / length.Seconds() }
	r := row{Bench: "crowd", Driver: d.name, N: electors}
	r.Subject = fmt.Sprintf("pgleader, %d electors, %d jobs each", electors, jobs)
	r.Extra = map[string]float64{
		"statements_per_s": perSecond(after.statements - before.statements),
		"renewals_per_s":   perSecond(renewalsAfter - renewals),
		"looks_per_s":      perSecond(looksAfter - looks),
		"cpu_percent":      perSecond(after.cpu-before.cpu) * 100,
		"wal_bytes_per_s":  perSecond(after.wal - before.wal),
		"terms_lost":       float64(lost),
	}
	b.rows = append(b.rows, r)
	t.add(d.name, fmt.Sprint(len(terms)), num(length.Seconds()), num(r.Extra["statements_per_s"]),
		num(r.Extra["renewals_per_s"]), num(r.Extra["looks_per_s"]), num(r.Extra["cpu_percent"]),
		num(r.Extra["wal_bytes_per_s"]/1000), fmt.Sprint(lost))
	all.leave()
	if err := b.depose(ctx, "crowd "+d.name, terms); err != nil {
		return err
	}
	return pool.Close()
}

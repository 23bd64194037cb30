package main

import (
	"context"
	"fmt"
	"time"

	"github.com/pgleader/pgleader/leader"
)

// losersOnOneJob measures the holder's renewals while many others wait for its job.
func (b *bench) losersOnOneJob(ctx context.Context, d driver, t *table) error {
	const ttl, renewEvery = 15 * time.Second, 50 * time.Millisecond
	electors := b.scale(1000, 100)
	job := "wanted over " + d.name
	h, err := b.holder(ctx, place{driver: d, url: b.url}, job, ttl, renewEvery)
	if err != nil {
		return err
	}
	shared, err := b.pool(d, b.url, 64)
	if err != nil {
		return err
	}
	measure := func(losers int) error {
		b.progress("waiting: %d losers over %s", losers, d.name)
		length := time.Duration(b.scale(8, 2)) * time.Second
		before, err := b.readLoad(ctx)
		if err != nil {
			return err
		}
		var samples []time.Duration
		for begun := time.Now(); time.Since(begun) < length; {
			took, err := h.renewal(ctx)
			if err != nil {
				return err
			}
			samples = append(samples, took)
		}
		after, err := b.readLoad(ctx)
		if err != nil {
			return err
		}
		r := row{Bench: "losers", Driver: d.name}.timed(samples)
		r.Subject = fmt.Sprintf("pgleader, %d electors wait for one job", losers)
		r.Extra = map[string]float64{
			"statements_per_s": (after.statements - before.statements) / length.Seconds(),
			"cpu_percent":      (after.cpu - before.cpu) / length.Seconds() * 100,
		}
		b.rows = append(b.rows, r)
		t.add(d.name, fmt.Sprint(losers), num(r.Extra["statements_per_s"]), num(r.Extra["cpu_percent"]),
			fmt.Sprint(r.N), number(r.MedianUS),
			number(r.P99US))
		return nil
	}
	if err := measure(0); err != nil {
		return err
	}
	all := newAudience(ctx)
	for range electors {
		e, err := elector(shared, leader.Config{TTL: ttl, OnEvent: all.onEvent})
		if err != nil {
			return err
		}
		all.campaign(e, job)
	}
	if err := all.seated(electors); err != nil {
		return err
	}
	time.Sleep(2 * time.Second) // until they look at times of their own
	err = measure(electors)
	all.leave()
	if err != nil {
		return err
	}
	if !b.quick {
		if err := measure(0); err != nil {
			return err
		}
	}
	if err := h.term.Resign(); err != nil {
		return err
	}
	return shared.Close()
}

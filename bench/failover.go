package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pgleader/pgleader/leader"
)

// failover kills leaders with -9 and measures from the moment when their lease expires, by the
// database's clock.
func (b *bench) failover(ctx context.Context) error {
	plans := []struct {
		ttl             time.Duration
		total, together int
	}{
		{500 * time.Millisecond, b.scale(40, 6), b.scale(5, 6)},
		{time.Second, b.scale(40, 6), b.scale(5, 6)},
		{5 * time.Second, b.scale(20, 0), 10},
		{15 * time.Second, b.scale(20, 0), 20},
	}
	t := &table{
		title: "failover after kill -9, from the expiry of the lease",
		note: "The successor's term by the database's clock, and the return of its Campaign by that of " +
			"this machine, which also runs the database.",
		columns: []string{
			"TTL", "driver", "n", "new term: median ms", "p99 ms",
			"Campaign returns: median ms", "p99 ms", "after the kill: median ms",
		},
	}
	for _, p := range plans {
		for i, d := range drivers {
			if p.total == 0 {
				continue
			}
			all, err := b.failovers(ctx, i, p.ttl, p.total, p.together)
			if err != nil {
				return err
			}
			var terms, returns, whole []time.Duration
			for _, f := range all {
				terms, returns = append(terms, f.term), append(returns, f.returned)
				whole = append(whole, f.sinceKill)
			}
			r := row{
				Bench: "failover", Subject: fmt.Sprintf("pgleader, TTL %v", p.ttl), Driver: d.name,
			}.timed(terms)
			r.Extra = map[string]float64{
				"ttl_ms":               float64(p.ttl.Milliseconds()),
				"campaign_median_us":   micros(quantile(returns, 0.5)),
				"campaign_p99_us":      micros(quantile(returns, 0.99)),
				"since_kill_median_us": micros(quantile(whole, 0.5)),
			}
			b.rows = append(b.rows, r)
			t.add(p.ttl.String(), d.name, fmt.Sprint(r.N), millis(r.MedianUS), millis(r.P99US),
				ms(quantile(returns, 0.5)), ms(quantile(returns, 0.99)), ms(quantile(whole, 0.5)))
		}
	}
	b.tables = append(b.tables, t)
	return nil
}

// A failure is one leader's death and succession.
type failure struct{ term, returned, sinceKill time.Duration }

func (b *bench) failovers(
	ctx context.Context, driver int, ttl time.Duration, total, together int,
) ([]failure, error) {
	b.progress("failover: TTL %v over %s", ttl, drivers[driver].name)
	var mu sync.Mutex
	var all []failure
	var first error
	places := make(chan struct{}, together)
	var wg sync.WaitGroup
	for i := range total {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			f, err := b.oneFailover(ctx, driver, ttl,
				fmt.Sprintf("failover %s %v %d", drivers[driver].name, ttl, i))
			mu.Lock()
			defer mu.Unlock()
			if err != nil && first == nil {
				first = err
			}
			all = append(all, f)
		})
	}
	wg.Wait()
	return all, first
}

func (b *bench) oneFailover(
	ctx context.Context, driver int, ttl time.Duration, job string,
) (failure, error) {
	var f failure
	kill, err := spawn(ctx, errand{driver, b.url, job, ttl})
	if err != nil {
		return f, err
	}
	pool, err := drivers[driver].open(b.url)
	if err != nil {
		return f, err
	}
	defer pool.Close()
	waiting := make(chan struct{}, 10)
	e, err := elector(pool, leader.Config{TTL: ttl, OnEvent: func(e leader.Event) {
		if e.Kind == leader.EventWaiting {
			waiting <- struct{}{}
		}
	}})
	if err != nil {
		return f, err
	}
	type elected struct {
		term *leader.Term
		at   time.Time
		err  error
	}
	next := make(chan elected, 1)
	go func() {
		t, err := e.Campaign(ctx, job)
		next <- elected{t, time.Now(), err}
	}()
	<-waiting
	time.Sleep(rand.N(min(ttl, 2*time.Second))) // at any phase of the renewals
	killed := time.Now()
	if err := kill(); err != nil {
		return f, err
	}
	time.Sleep(20 * time.Millisecond) // what it had sent is written by now
	var expires time.Time
	err = b.admin.QueryRowContext(ctx, `SELECT expires_at FROM leader_lease WHERE job_name = $1`, job).
		Scan(&expires)
	if err != nil {
		return f, err
	}
	successor := <-next
	if successor.err != nil {
		return f, successor.err
	}
	var acquired time.Time
	err = b.admin.QueryRowContext(ctx,
		`SELECT acquired_at FROM leader_lease WHERE job_name = $1`, job).Scan(&acquired)
	if err != nil {
		return f, err
	}
	f = failure{acquired.Sub(expires), successor.at.Round(0).Sub(expires), successor.at.Sub(killed)}
	if f.term < 0 || f.term > time.Duration(math.MaxInt32)*time.Millisecond {
		return f, fmt.Errorf("a successor after %v", f.term)
	}
	return f, successor.term.Resign()
}

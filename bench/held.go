package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/pgleader/pgleader/leader"
)

// holdMany lets one elector hold ten thousand terms, and one.
func (b *bench) holdMany(ctx context.Context) error {
	t := &table{
		title: "terms held by one elector",
		note: "Memory is live heap and stacks after a garbage collection, " +
			"beyond what the process had before the first term.",
		columns: []string{
			"terms", "driver", "renewals in 10 s", "statement: server ms",
			"server CPU, % of one core", "bytes per term", "goroutines per term", "terms lost",
		},
	}
	for _, d := range drivers {
		many := b.scale(10_000, 300)
		if d.name != "pgx" {
			// One by one they are taken slowly. The driver changes nothing about what they hold.
			many = b.scale(1000, 300)
		}
		for _, n := range []int{1, many} {
			b.progress("renewals: %d terms held over %s", n, d.name)
			if err := b.hold(ctx, d, n, t); err != nil {
				return err
			}
		}
	}
	b.tables = append(b.tables, t)
	return nil
}

func (b *bench) hold(ctx context.Context, d driver, n int, t *table) error {
	pool, err := b.pool(d, b.url, 8)
	if err != nil {
		return err
	}
	// The connections must not be taken for the terms'.
	if err := inParallel(8, 8, func(int) error {
		_, err := pool.ExecContext(ctx, `SELECT pg_sleep(0.05)`)
		return err
	}); err != nil {
		return err
	}
	e, err := elector(pool, leader.Config{TTL: 15 * time.Second, RenewEvery: time.Second})
	if err != nil {
		return err
	}
	// Jobs that were led before: the server's statistics know how many there are.
	prefix := fmt.Sprintf("held %s %d ", d.name, n)
	if err := b.exec(ctx, `INSERT INTO leader_lease SELECT $1 || i, 'earlier', 1, now(), now(), now()
		FROM generate_series(0, $2::int - 1) AS i`, prefix, n); err != nil {
		return err
	}
	if err := b.exec(ctx, `VACUUM ANALYZE leader_lease`); err != nil {
		return err
	}
	memory, goroutines := inUse()
	terms := make([]*leader.Term, n)
	// As autovacuum would from minute to minute; what happens until then is measured by
	// staleStatistics.
	analyzing, done := context.WithCancel(ctx)
	defer done()
	go func() {
		for analyzing.Err() == nil {
			_ = b.exec(analyzing, `ANALYZE leader_lease`)
			time.Sleep(300 * time.Millisecond)
		}
	}()
	if err := inParallel(8, n, func(i int) (err error) {
		terms[i], err = e.Campaign(ctx, fmt.Sprint(prefix, i))
		return err
	}); err != nil {
		return err
	}
	done()
	time.Sleep(400 * time.Millisecond)
	if err := b.exec(ctx, `ANALYZE leader_lease`); err != nil {
		return err
	}
	memoryHeld, goroutinesHeld := inUse()
	before, err := b.readLoad(ctx)
	if err != nil {
		return err
	}
	calls, seconds, err := b.statementTime(ctx, "-- name: RenewLease")
	if err != nil {
		return err
	}
	length := time.Duration(b.scale(6, 2)) * time.Second
	time.Sleep(length)
	callsAfter, secondsAfter, err := b.statementTime(ctx, "-- name: RenewLease")
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
	r := row{Bench: "held", Driver: d.name, N: int(callsAfter - calls)}
	r.Subject = fmt.Sprintf("pgleader, %d terms", n)
	r.Extra = map[string]float64{
		"cpu_percent":         (after.cpu - before.cpu) / length.Seconds() * 100,
		"bytes_per_term":      (memoryHeld - memory) / float64(n),
		"goroutines_per_term": (goroutinesHeld - goroutines) / float64(n),
		"terms_lost":          float64(lost),
	}
	perStatement := 0.0
	if r.N > 0 {
		perStatement = (secondsAfter - seconds) / float64(r.N) * 1e6
		r.MedianUS = some(perStatement)
	}
	b.rows = append(b.rows, r)
	perTerm := "–" // of one it is less than the collector's own
	if n > 1 {
		perTerm = num(r.Extra["bytes_per_term"])
	}
	t.add(fmt.Sprint(n), d.name, num(float64(r.N)*10/length.Seconds()), num(perStatement/1000),
		num(r.Extra["cpu_percent"]), perTerm, num(r.Extra["goroutines_per_term"]), fmt.Sprint(lost))
	return b.depose(ctx, prefix, terms)
}

// depose ends many terms at once: their next renewal finds no row.
func (b *bench) depose(ctx context.Context, prefix string, terms []*leader.Term) error {
	err := b.exec(ctx, `DELETE FROM leader_lease WHERE starts_with(job_name, $1)`, prefix)
	if err != nil {
		return err
	}
	for _, term := range terms {
		select {
		case <-term.Context().Done():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// inUse is measured when nothing is left to collect.
func inUse() (bytes, goroutines float64) {
	time.Sleep(50 * time.Millisecond)
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse), float64(runtime.NumGoroutine())
}

// inParallel calls f for 0 to n-1.
func inParallel(together, n int, f func(int) error) error {
	var mu sync.Mutex
	var first error
	var wg sync.WaitGroup
	next := 0
	for range together {
		wg.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				stop := first != nil || i >= n
				mu.Unlock()
				if stop {
					return
				}
				if err := f(i); err != nil {
					mu.Lock()
					first = err
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return first
}

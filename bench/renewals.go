package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/leader"
)

// renewals measures what one lease among many costs: renewed one by one, and all by one statement.
func (b *bench) renewals(ctx context.Context) error {
	t := &table{
		title: "renewal, per lease",
		note: "Server time is planning and execution as pg_stat_statements has it. CPU is the backend's, " +
			"with parsing and commit. " +
			"Wall is what the caller waits.",
		columns: []string{"leases", "how", "driver", "statements", "wall µs", "server µs", "CPU µs", "WAL bytes", "leases/s"},
	}
	// How many there are in the table matters to the plan as well.
	if err := b.exec(ctx, `INSERT INTO leader_lease
		SELECT 'renewal ' || i, 'me', i, now(), now(), now() + '1 d' FROM generate_series(1, 10000) AS i`); err != nil {
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
				rows, err := db.New(pool).RenewLeases(ctx, db.RenewLeasesParams{Terms: terms, Holder: "me", TTLSeconds: 86400})
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
func (b *bench) renewalRows(ctx context.Context, t *table, d driver, pool *sql.DB, ways []renewal) error {
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
		r := row{Bench: "renewals", Subject: fmt.Sprintf("%d leases, %s", w.leases, w.how), Driver: d.name}
		r.WALBytes = some(s.wal / leases)
		r = r.timed(s.samples)
		r.Extra = map[string]float64{"wall_us_per_lease": s.wall / leases * 1e6, "cpu_us_per_lease": s.cpu / leases * 1e6}
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

// holdMany lets one elector hold ten thousand terms, and one.
func (b *bench) holdMany(ctx context.Context) error {
	t := &table{
		title: "terms held by one elector",
		note:  "Memory is live heap and stacks after a garbage collection, beyond what the process had before the first term.",
		columns: []string{
			"terms", "driver", "renewals in 10 s", "statement: server ms",
			"server CPU, % of one core", "bytes per term", "goroutines per term", "terms lost",
		},
	}
	for _, d := range drivers {
		many := b.scale(10_000, 300)
		if d.name != "pgx" {
			many = b.scale(1000, 300) // one by one they are taken slowly, and the driver changes nothing about what they hold
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
	// As autovacuum would from minute to minute; what happens until then is measured by staleStatistics.
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
	r := row{Bench: "held", Subject: fmt.Sprintf("pgleader, %d terms", n), Driver: d.name, N: int(callsAfter - calls)}
	r.Extra = map[string]float64{
		"cpu_percent": (after.cpu - before.cpu) / length.Seconds() * 100, "bytes_per_term": (memoryHeld - memory) / float64(n),
		"goroutines_per_term": (goroutinesHeld - goroutines) / float64(n), "terms_lost": float64(lost),
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
	t.add(fmt.Sprint(n), d.name, num(float64(r.N)*10/length.Seconds()), num(perStatement/1000), num(r.Extra["cpu_percent"]),
		perTerm, num(r.Extra["goroutines_per_term"]), fmt.Sprint(lost))
	return b.depose(ctx, prefix, terms)
}

// depose ends many terms at once: their next renewal finds no row.
func (b *bench) depose(ctx context.Context, prefix string, terms []*leader.Term) error {
	if err := b.exec(ctx, `DELETE FROM leader_lease WHERE starts_with(job_name, $1)`, prefix); err != nil {
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

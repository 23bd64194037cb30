package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

// A gap is one run with a frozen leader: by how much the successor's term began after the old one's
// end, negative if both led.
type gap struct {
	between time.Duration
	capped  bool // the old leader still believed in itself when the run was ended
}

// frozen freezes the connection of leaders and measures whether both lead.
func (b *bench) frozen(ctx context.Context) error {
	const ttl, together = time.Second, 25
	t := &table{
		title: "both lead after the leader's connection froze, TTL 1 s",
		note: "The textbook loop claims every TTL/3 with a context of TTL/3 and leads until a claim " +
			"fails; its runs are ended after a while. " +
			"Pause is from the old term's end to the new one's beginning.",
		columns: []string{
			"subject", "driver", "runs", "both led", "longest both, ms",
			"pause: median ms", "least ms",
		},
	}
	ways := []struct {
		subject string
		runs    int
		once    func(context.Context, int, time.Duration, string) (gap, error)
	}{
		{"pgleader", b.scale(100, 10), b.freezeLeader},
		{"textbook upsert in a loop", b.scale(10, 1), b.freezeTextbook},
	}
	for _, w := range ways {
		for i, d := range drivers {
			b.progress("frozen: %s over %s", w.subject, d.name)
			var mu sync.Mutex
			var gaps []gap
			var first error
			places := make(chan struct{}, together)
			var wg sync.WaitGroup
			for n := range w.runs {
				places <- struct{}{}
				wg.Go(func() {
					defer func() { <-places }()
					g, err := w.once(ctx, i, ttl, fmt.Sprintf("frozen %s %d", d.name, n))
					mu.Lock()
					defer mu.Unlock()
					if err != nil && first == nil {
						first = err
					}
					gaps = append(gaps, g)
				})
			}
			wg.Wait()
			if first != nil {
				return first
			}
			b.addFrozen(t, w.subject, d.name, gaps)
		}
	}
	b.tables = append(b.tables, t)
	return nil
}

func (b *bench) addFrozen(t *table, subject, driver string, gaps []gap) {
	var both int
	var longest time.Duration
	var pauses []time.Duration
	more := ""
	for _, g := range gaps {
		pauses = append(pauses, g.between)
		if g.between < 0 {
			both++
			longest = max(longest, -g.between)
		}
		if g.capped {
			more = "> "
		}
	}
	least := quantile(pauses, 1e-9)
	r := row{Bench: "frozen", Subject: subject, Driver: driver, N: len(gaps)}
	r.Extra = map[string]float64{
		"both_led_runs": float64(both), "longest_both_us": micros(longest),
		"pause_median_us": micros(quantile(pauses, 0.5)), "pause_least_us": micros(least),
	}
	b.rows = append(b.rows, r)
	t.add(subject, driver, fmt.Sprint(r.N), fmt.Sprint(both), more+ms(longest),
		ms(quantile(pauses, 0.5)), ms(least))
}

func (b *bench) freezeLeader(
	ctx context.Context, driver int, ttl time.Duration, job string,
) (gap, error) {
	proxy := pgtest.NewProxy(&scope{bench: b}, b.url)
	defer proxy.Cut()
	behind, err := drivers[driver].open(proxy.URL)
	if err != nil {
		return gap{}, err
	}
	defer behind.Close()
	straight, err := drivers[driver].open(b.url)
	if err != nil {
		return gap{}, err
	}
	defer straight.Close()
	old, err := elector(behind, leader.Config{TTL: ttl})
	if err != nil {
		return gap{}, err
	}
	successor, err := elector(straight, leader.Config{TTL: ttl})
	if err != nil {
		return gap{}, err
	}
	term, err := old.Campaign(ctx, job)
	if err != nil {
		return gap{}, err
	}
	ended := make(chan time.Time, 1)
	go func() {
		<-term.Context().Done()
		ended <- time.Now().Round(0)
	}()
	time.AfterFunc(rand.N(2*ttl), proxy.Freeze)
	next, err := successor.Campaign(ctx, job)
	if err != nil {
		return gap{}, err
	}
	var acquired time.Time
	err = b.admin.QueryRowContext(ctx,
		`SELECT acquired_at FROM leader_lease WHERE job_name = $1`, job).Scan(&acquired)
	if err != nil {
		return gap{}, err
	}
	end := <-ended
	return gap{between: acquired.Sub(end)}, next.Resign()
}

// freezeTextbook is the loop that the textbook upsert is used in.
func (b *bench) freezeTextbook(
	ctx context.Context, driver int, ttl time.Duration, job string,
) (gap, error) {
	limit := time.Duration(b.scale(10, 3)) * time.Second
	proxy := pgtest.NewProxy(&scope{bench: b}, b.url)
	behind, err := drivers[driver].open(proxy.URL)
	if err != nil {
		return gap{}, err
	}
	if err := b.exec(ctx, `CREATE TABLE IF NOT EXISTS textbook (
		name text PRIMARY KEY, holder text NOT NULL, expires_at timestamptz NOT NULL)`); err != nil {
		return gap{}, err
	}
	claim := func(ctx context.Context) error {
		soon, cancel := context.WithTimeout(ctx, ttl/3)
		defer cancel()
		return textbookClaim(soon, behind, job, "old", ttl.Seconds())
	}
	if err := claim(ctx); err != nil {
		return gap{}, err
	}
	ended := make(chan time.Time, 1)
	go func() {
		for claim(ctx) == nil {
			time.Sleep(ttl / 3)
		}
		ended <- time.Now()
	}()
	time.Sleep(rand.N(ttl))
	proxy.Freeze()
	var acquired time.Time
	for {
		if err = textbookClaim(ctx, b.admin, job, "new", 60); err == nil {
			acquired = time.Now()
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	g := gap{}
	select {
	case end := <-ended:
		g.between = acquired.Sub(end)
	case <-time.After(limit):
		g = gap{-limit, true}
	}
	proxy.Cut() // lets the driver go
	if g.capped {
		<-ended
	}
	return g, behind.Close()
}

// A scope is a testing.TB for one proxy, whose end the caller sees to itself.
type scope struct{ *bench }

func (*scope) Cleanup(func()) {}

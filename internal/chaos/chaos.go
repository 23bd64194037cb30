//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pgleader/pgleader/internal/chaos/check"
)

var errBroken = errors.New("a promise was broken")

// chaos runs the histories, on a server that stays up and on one that does not.
func chaos(ctx context.Context, out io.Writer, o options) error {
	t := &tally{out: out, options: o, began: time.Now()}
	fmt.Fprintf(out, "chaos: seed %d: %d histories of %v, and %d on a server that is restarted "+
		"and whose disk stalls; TTL %v\n", o.seed, o.histories, o.duration, o.restarts, o.ttl)
	err := t.batch(ctx, o.seed, o.histories, false)
	if err == nil {
		err = t.batch(ctx, o.seed+uint64(o.histories), o.restarts, true)
	}
	t.print()
	if err == nil && t.broken > 0 {
		err = errBroken
	}
	return err
}

// A tally adds the histories up.
type tally struct {
	options
	out   io.Writer
	began time.Time

	mu        sync.Mutex
	histories int
	broken    int
	sum       check.Report
	recovery  []time.Duration
}

// batch runs n histories with seeds from the given one, on a server of their own.
func (t *tally) batch(ctx context.Context, seed uint64, n int, restarts bool) error {
	if n == 0 {
		return nil
	}
	s, err := newSite(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	s.restarts = restarts
	if restarts && !s.server.CanRestart() {
		fmt.Fprintln(t.out, "chaos: no histories with restarts: the server is not ours")
		return nil
	}
	fmt.Fprintf(t.out, "chaos: on %v\n", s.server)
	if !restarts {
		close(s.calm)
		return t.group(ctx, s, seed, n)
	}
	// The server goes down while faults go on, and stays up when they are over.
	for i := 0; i < n; i += t.parallel {
		if err := t.withRestarts(ctx, s, seed+uint64(i), min(t.parallel, n-i)); err != nil {
			return err
		}
	}
	return nil
}

func (t *tally) withRestarts(ctx context.Context, s *site, seed uint64, n int) error {
	s.calm = make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- s.disturb(ctx, seed, t.duration, t.ttl)
		close(s.calm)
	}()
	err := t.group(ctx, s, seed, n)
	return errors.Join(err, <-ended)
}

func (t *tally) group(ctx context.Context, s *site, seed uint64, n int) error {
	places := make(chan struct{}, t.parallel)
	var all sync.WaitGroup
	for i := range n {
		places <- struct{}{}
		if ctx.Err() != nil || t.enough() {
			<-places
			break
		}
		all.Go(func() {
			defer func() { <-places }()
			t.one(ctx, s, seed+uint64(i))
		})
	}
	all.Wait()
	return ctx.Err()
}

// enough reports whether no further history is to begin.
func (t *tally) enough() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.limit > 0 && time.Since(t.began) > t.limit || t.first && t.broken > 0
}

// one runs one history and judges it.
func (t *tally) one(ctx context.Context, s *site, seed uint64) {
	h, err := newHistory(t.options, s, seed)
	var seen check.History
	if err == nil {
		seen, err = h.run(ctx)
	}
	if err != nil {
		if ctx.Err() == nil {
			t.add(nil, check.Report{Violations: []string{"the run itself: " + err.Error()}}, seen,
				seed, s.restarts)
		}
		return
	}
	report := check.Check(seen)
	report.Violations = append(report.Violations, h.failed...)
	t.add(h, report, seen, seed, s.restarts)
}

func (t *tally) add(h *history, r check.Report, seen check.History, seed uint64, restarts bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.histories++
	t.recovery = append(t.recovery, r.Recovery)
	sum := &t.sum
	sum.Terms += r.Terms
	sum.Ticks += r.Ticks
	sum.Writes += r.Writes
	sum.Refused += r.Refused
	sum.Slots += r.Slots
	sum.StaleTicks += r.StaleTicks
	sum.Stalled += r.Stalled
	sum.Undecided += r.Undecided
	if len(r.Violations) == 0 {
		return
	}
	t.broken++
	fmt.Fprintf(t.out, "chaos: seed %d violates:\n", seed)
	for i, v := range r.Violations {
		if i == 10 {
			fmt.Fprintf(t.out, "  and %d more\n", len(r.Violations)-i)
			break
		}
		fmt.Fprintf(t.out, "  %s\n", strings.TrimSpace(v))
	}
	if h != nil {
		fmt.Fprintf(t.out, "  faults:\n%s", h.plan)
		fmt.Fprintf(t.out, "  history: %s\n", t.save(seen))
	}
	fmt.Fprintf(t.out, "  repeat: %s\n", t.repeat(seed, restarts))
}

func (t *tally) repeat(seed uint64, restarts bool) string {
	histories, again := 1, 0
	if restarts {
		histories, again = 0, 1
	}
	return fmt.Sprintf(
		"go run ./internal/chaos -seed %d -histories %d -restarts %d -duration %v -ttl %v",
		seed, histories, again, t.duration, t.ttl)
}

// save writes a history down, and returns where.
func (t *tally) save(seen check.History) string {
	path := filepath.Join(t.keep, fmt.Sprintf("chaos-%d.json", seen.Seed))
	text, err := json.Marshal(seen)
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		return err.Error()
	}
	return path
}

func (t *tally) print() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.histories == 0 {
		return
	}
	slices.Sort(t.recovery)
	s := t.sum
	fmt.Fprintf(t.out, `chaos: %d histories in %v, %d with a violation (seeds from %d)
  terms            %d
  ticks            %d, of which %d by a process that was stopped and had just woken, `+
		`%d by one that was not run in time
  guarded writes   %d, and %d refused or failed
  slots            %d
  leader again     after p50 %v, p99 %v, max %v since the last fault (a TTL and a look are %v)
  linearization    not decided in time for %d
`,
		t.histories, time.Since(t.began).Round(time.Second), t.broken, t.seed,
		s.Terms, s.Ticks, s.StaleTicks, s.Stalled, s.Writes, s.Refused, s.Slots,
		quantile(t.recovery, .5), quantile(t.recovery, .99), quantile(t.recovery, 1),
		t.ttl+t.ttl/4+t.ttl/16, s.Undecided)
}

// quantile is of sorted values.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(q*float64(len(sorted)-1)+.5)].Round(time.Millisecond)
}

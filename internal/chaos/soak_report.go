//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"
)

// A gauge is how much everything takes at one time: the processes together, but for the one that is
// killed now and then.
type gauge struct {
	rss, heap, goroutines, connections int64
}

func (r *soakRun) watch(ctx context.Context) {
	for sleep(ctx, 5*time.Second) {
		var g gauge
		r.mu.Lock()
		for _, p := range r.processes[1:] {
			g.heap += int64(p.last.Heap)
			g.goroutines += int64(p.last.Goroutines)
			g.rss += residentOf(p.cmd.Process.Pid)
		}
		r.mu.Unlock()
		n, err := count(ctx, r.site.db,
			"SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'soak-%'")
		if err != nil || g.heap == 0 {
			continue
		}
		g.connections = n
		r.mu.Lock()
		r.gauges = append(r.gauges, g)
		r.mu.Unlock()
	}
}

// residentOf is the resident size of a process in bytes, or 0 where the system has no /proc.
func residentOf(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	fields := bytes.Fields(text)
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages * int64(os.Getpagesize())
}

// judge prints the figures, and says whether a promise was broken or something grew.
func (r *soakRun) judge(ctx context.Context, out io.Writer) error {
	led, err := count(ctx, r.site.db,
		"SELECT count(*) FROM leader_lease WHERE expires_at > clock_timestamp()")
	if err != nil {
		return err
	}
	// Terms are given up all the time; a rival looks within a look and a quarter.
	limit := r.ttl/3*5/4 + graceOfRecovery
	forgotten, err := count(ctx, r.site.db, fmt.Sprintf(`SELECT %d - count(*) FROM leader_lease
		WHERE expires_at > clock_timestamp() - make_interval(secs => %f)`, r.soakJobs, limit.Seconds()))
	if err != nil {
		return err
	}
	terms, err := count(ctx, r.site.db, "SELECT count(*) FROM chaos_lease")
	if err != nil {
		return err
	}
	early, err := count(ctx, r.site.db, `SELECT count(*) FROM chaos_lease
		WHERE op = 'DELETE' OR (new).token <= (old).token
		   OR (op = 'UPDATE' AND (new).acquired_at < (old).expires_at AND (new).holder <> (old).holder)`)
	if err != nil {
		return err
	}
	overlaps, stale, err := r.overlaps(ctx)
	if err != nil {
		return err
	}
	size, err := count(ctx, r.site.db, "SELECT pg_total_relation_size('leader_lease')")
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(out, `chaos: soak over; faults: %v
  jobs led at the end   %d of %d, and %d without a leader for more than %v
  terms                 %d, of which %d were lost by a process that told so
  taken too early       %d
  went on too long      %d, and %d of a process that was stopped and had just woken
  lease table           %d KiB
`, r.faults, led, r.soakJobs, forgotten, limit.Round(time.Millisecond), terms, r.lost,
		early, overlaps, stale, size>>10)
	flat := true
	for _, f := range []struct {
		what  string
		slack int64
		unit  int64
		of    func(gauge) int64
	}{
		{"resident memory, MiB", 16 << 20, 1 << 20, func(g gauge) int64 { return g.rss }},
		{"heap, MiB", 8 << 20, 1 << 20, func(g gauge) int64 { return g.heap }},
		{"goroutines", 100, 1, func(g gauge) int64 { return g.goroutines }},
		{"connections", 20, 1, func(g gauge) int64 { return g.connections }},
	} {
		n := len(r.gauges)
		before, after := middle(r.gauges[n/4:n/2], f.of), middle(r.gauges[n*3/4:], f.of)
		verdict := "flat"
		if after > before+before/4+f.slack {
			verdict, flat = "GROWS", false
		}
		fmt.Fprintf(out, "  %-21s %d in the second quarter, %d in the last: %s\n",
			f.what, before/f.unit, after/f.unit, verdict)
	}
	if forgotten > 0 || early > 0 || overlaps > 0 || !flat {
		return errBroken
	}
	return nil
}

func middle(gauges []gauge, of func(gauge) int64) int64 {
	var all []int64
	for _, g := range gauges {
		all = append(all, of(g))
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// overlaps counts the terms whose context was alive after a successor had begun, and apart those of
// a process that had been stopped.
func (r *soakRun) overlaps(ctx context.Context) (overlaps, stale int, err error) {
	type begin struct {
		token int64
		at    time.Time
	}
	begins := make(map[string][]begin)
	rows, err := r.site.db.QueryContext(ctx,
		`SELECT job_name, (new).token, (new).acquired_at
		FROM chaos_lease WHERE op <> 'DELETE' ORDER BY seq`)
	if err != nil {
		return 0, 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var job string
		var b begin
		if err := rows.Scan(&job, &b.token, &b.at); err != nil {
			return 0, 0, err
		}
		begins[job] = append(begins[job], b)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, end := range r.ends {
		for _, b := range begins[end.Job] {
			if b.token <= end.Token {
				continue
			}
			if !end.Alive.Before(b.at) {
				if r.owner[i].wokeAt(end.Alive) {
					stale++
				} else {
					overlaps++
				}
			}
			break
		}
	}
	return overlaps, stale, rows.Err()
}

// wokeAt reports whether the process had just woken. This machine's clock is the database's.
func (p *soakProcess) wokeAt(at time.Time) bool {
	for _, pause := range p.pauses {
		if at.After(pause.From) && at.Before(pause.To.Add(300*time.Millisecond)) {
			return true
		}
	}
	return false
}

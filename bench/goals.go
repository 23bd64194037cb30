package main

import (
	"fmt"
	"slices"
	"strings"
)

// goals compares the rows of this run with what pgleader wants to reach.
func (b *bench) goals() *table {
	t := &table{title: "goals", columns: []string{"goal", "wanted", "driver", "measured", ""}}
	for _, d := range drivers {
		g := goalLines{b.rows, t, d.name}
		g.ratio(renew, "pgleader", "renew, as the library does it", 1.10)
		g.ratio(renew, "pgleader, generated query", "renew, generated query", 1.10)
		g.ratio(renew, "pgleader, generated query"+rested, "renew, generated query"+rested, 1.10)
		g.ratio(lose, "pgleader", "losing attempt", 2)
		g.zero(lose, "pgleader", "losing attempt: WAL bytes",
			func(r row) *float64 { return r.WALBytes }, 0)
		g.zero(lose, "pgleader", "losing attempt: round trips",
			func(r row) *float64 { return r.RoundTrips }, 1)
		g.ratio(look, "pgleader", "waiting candidate's look, as the library does it", 1.1)
		g.ratio(look, "pgleader, generated query", "waiting candidate's look, generated query", 1.1)
		g.ratio(acquire, "pgleader", "acquire", 1.15)
		g.ratio(release, "pgleader", "release", 1.15)
		g.latency("handover", "pgleader, with a listener", "hand-over with a listener, median / p99",
			3, 20)
		for _, ttl := range []string{"500ms", "1s", "5s", "15s"} {
			g.latency("failover", "pgleader, TTL "+ttl, "failover after expiry, TTL "+ttl, 10, 50)
		}
		g.extra("frozen", "pgleader", "both lead under a frozen connection, runs", "both_led_runs", 0)
		g.share()
		g.extra("waiting", "pgleader, 1000 jobs in one process",
			"1,000 waiting candidates: statements per RetryEvery", "statements_per_retry_every", 1)
	}
	return t
}

type goalLines struct {
	rows   []row
	t      *table
	driver string
}

func (g goalLines) find(bench, subject string) (row, bool) {
	i := slices.IndexFunc(g.rows,
		func(r row) bool { return r.Bench == bench && r.Subject == subject && r.Driver == g.driver })
	if i < 0 {
		return row{}, false
	}
	return g.rows[i], true
}

func (g goalLines) add(what, wanted, measured string, met bool) {
	verdict := "met"
	if !met {
		verdict = "**missed**"
	}
	g.t.add(what, wanted, g.driver, measured, verdict)
}

func (g goalLines) ratio(bench, subject, what string, most float64) {
	if r, ok := g.find(bench, subject); ok && r.RatioToFloor != nil {
		base := strings.Replace(floorOf(r), "prepared ", "", 1)
		g.add(what, fmt.Sprintf("≤ %s × %s", num(most), base),
			fmt.Sprintf("%s × (at p10 %s ×)", num(*r.RatioToFloor), num(*r.RatioAtP10)),
			*r.RatioToFloor <= most)
	}
}

func (g goalLines) zero(bench, subject, what string, of func(row) *float64, most float64) {
	if r, ok := g.find(bench, subject); ok && of(r) != nil {
		g.add(what, num(most), num(*of(r)), *of(r) <= most)
	}
}

func (g goalLines) latency(bench, subject, what string, median, p99 float64) {
	if r, ok := g.find(bench, subject); ok && r.MedianUS != nil {
		g.add(what, fmt.Sprintf("≤ %s / ≤ %s ms", num(median), num(p99)),
			millis(r.MedianUS)+" / "+millis(r.P99US)+" ms",
			*r.MedianUS <= median*1000 && *r.P99US <= p99*1000)
	}
}

func (g goalLines) extra(bench, subject, what, key string, most float64) {
	if r, ok := g.find(bench, subject); ok {
		g.add(what, "≤ "+num(most), num(r.Extra[key]), r.Extra[key] <= most)
	}
}

// share compares many leases with one by one.
func (g goalLines) share() {
	const share = 1.0 / 20
	one, ok := g.find("renewals", "1 leases, one by one")
	many, okMany := g.find("renewals", "10000 leases, one statement")
	if !ok || !okMany {
		return
	}
	for _, by := range []struct{ key, name string }{
		{"wall_us_per_lease", "wall time"},
		{"cpu_us_per_lease", "CPU of the backend"},
		{"server_us_per_lease", "planning and execution"},
	} {
		if one.Extra[by.key] == 0 {
			continue
		}
		got := many.Extra[by.key] / one.Extra[by.key]
		measured := "1/" + strings.TrimSpace(num(1/got))
		g.add("10,000 leases, "+by.name+" per renewed lease", "≤ 1/20 of one by one",
			measured, got <= share)
	}
}

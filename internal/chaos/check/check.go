package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Check compares a history with every promise.
func Check(h History) Report {
	c := &checker{History: h}
	c.sort()
	c.leases()
	c.processes()
	c.ticks()
	c.work()
	c.writes()
	c.slots()
	c.liveness()
	c.linearizable()
	return c.report
}

type checker struct {
	History
	report Report
	byJob  map[string][]LeaseChange
}

func (c *checker) broken(format string, args ...any) {
	c.report.Violations = append(c.report.Violations, fmt.Sprintf(format, args...))
}

// sort puts the changes in the order of their sequence numbers, and says what each of them meant.
func (c *checker) sort() {
	slices.SortFunc(c.Leases, func(a, b LeaseChange) int { return cmp.Compare(a.Seq, b.Seq) })
	slices.SortFunc(c.Slots, func(a, b SlotChange) int { return cmp.Compare(a.Seq, b.Seq) })
	slices.SortFunc(c.Writes, func(a, b Write) int { return cmp.Compare(a.Seq, b.Seq) })
	c.byJob = make(map[string][]LeaseChange)
	for _, l := range c.Leases {
		l.byOperator = c.Operator != "" && strings.HasPrefix(l.Holder, c.Operator)
		l.begins = l.Op == "INSERT" || l.Token != l.OldToken && !l.byOperator
		l.releases = l.Op == "UPDATE" && l.Token == l.OldToken &&
			l.Renewed.Equal(l.OldRenewed) && l.Expires.Before(l.OldExpires)
		c.byJob[l.Job] = append(c.byJob[l.Job], l)
	}
}

// successor returns the first change by which a term with a greater token began.
func (c *checker) successor(job string, token int64) (LeaseChange, bool) {
	for _, l := range c.byJob[job] {
		if l.begins && l.Token > token {
			return l, true
		}
	}
	return LeaseChange{}, false
}

// overtaken returns the first change after which the token was not the job's, also an operator's.
func (c *checker) overtaken(job string, token int64) (LeaseChange, bool) {
	for _, l := range c.byJob[job] {
		if l.Token > token {
			return l, true
		}
	}
	return LeaseChange{}, false
}

func at(t time.Time) string { return t.UTC().Format("05.000000") }

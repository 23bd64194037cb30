package check

import (
	"strings"
	"time"
)

// ticks checks that a term's context had ended before a successor began. A tick says that the
// context was alive after the database's clock had shown Before. Of a process that did not run
// nothing can be asked: when it goes on it may act once as a stale leader. Those are counted.
func (c *checker) ticks() {
	for _, r := range c.Records {
		if r.Kind != Tick {
			continue
		}
		c.report.Ticks++
		next, ok := c.successor(r.Job, r.Token)
		if !ok || r.Before.Before(next.Acquired) {
			continue
		}
		switch {
		case c.paused(r.Worker, next.Acquired, r.Before):
			c.report.StaleTicks++
		case c.stalled(r.Worker, next.Acquired.Add(-c.Timing.TTL), r.Before):
			c.report.Stalled++
		default:
			c.broken("%s: %s took itself for the leader under token %d at %s, "+
				"and token %d of %s had begun at %s",
				r.Job, r.Worker, r.Token, at(r.Before), next.Token, next.Holder, at(next.Acquired))
		}
	}
}

// wake is how long after a pause a process may need to find out.
const wake = 300 * time.Millisecond

// paused reports whether the worker was stopped for longer than the margin, and still was when the
// successor began, or had just woken up.
func (c *checker) paused(worker string, from, to time.Time) bool {
	for _, p := range c.Pauses {
		if p.Worker == worker && p.To.Sub(p.From) > c.Timing.Margin &&
			p.From.Before(to) && p.To.Add(wake).After(from) && to.Before(p.To.Add(wake)) {
			return true
		}
	}
	return false
}

// stalled reports whether a worker, or if none is named any, was not run by the machine for long
// between the two moments.
func (c *checker) stalled(worker string, from, to time.Time) bool {
	for _, r := range c.Records {
		if r.Kind != Stall || worker != "" && r.Worker != worker {
			continue
		}
		began, ended := r.From.Add(c.Skew), r.At.Add(c.Skew)
		if began.Before(to) && ended.Add(wake).After(from) {
			return true
		}
	}
	return false
}

// work checks that a lease is released only after the work under it has returned.
func (c *checker) work() {
	type tenure struct {
		worker string
		ended  time.Time
	}
	begun := make(map[string]map[int64]*tenure)
	for _, r := range c.Records {
		switch r.Kind {
		case Begin:
			if begun[r.Job] == nil {
				begun[r.Job] = make(map[int64]*tenure)
			}
			begun[r.Job][r.Token] = &tenure{worker: r.Worker}
		case End:
			if t := begun[r.Job][r.Token]; t != nil {
				t.ended = r.At.Add(c.Skew)
			}
		}
	}
	for job, changes := range c.byJob {
		for _, l := range changes {
			t := begun[job][l.Token]
			if !l.releases || t == nil {
				continue
			}
			const slack = 5 * time.Millisecond // between two clocks of one machine
			if t.ended.IsZero() || l.At.Before(t.ended.Add(-slack)) {
				c.broken("%s: token %d was released at %s, while the work of %s went on until %s",
					job, l.Token, at(l.At), t.worker, at(t.ended))
			}
		}
	}
	c.pairs()
}

// pairs checks that every term that a process reported was reported as over at most once, and
// before its next one.
func (c *checker) pairs() {
	over := make(map[string]string)
	for _, r := range c.Records {
		if r.Kind != Lost && r.Kind != Resigned {
			continue
		}
		key := strings.Join([]string{r.Worker, r.Job, time.Duration(r.Token).String()}, " ")
		if before := over[key]; before != "" {
			c.broken("%s: %s reported token %d as %s and as %s", r.Job, r.Worker, r.Token, before, r.Kind)
		}
		over[key] = r.Kind
	}
}

package check

import "time"

// liveness checks that every job is led again within the TTL and one look after the last fault.
func (c *checker) liveness() {
	if c.Healed.IsZero() {
		return
	}
	limit := c.Timing.TTL + c.Timing.Look + c.Timing.Look/4
	for _, job := range c.Jobs {
		first, ok := c.ledSince(job, c.Healed)
		if !ok {
			c.broken("%s: nobody led after the last fault", job)
			continue
		}
		took := first.Sub(c.Healed)
		c.report.Recovery = max(c.report.Recovery, took)
		if took > limit+c.Grace {
			c.broken("%s: nobody led for %v after the last fault, want %v at most", job, took, limit)
		}
	}
	for _, job := range c.SlotJobs {
		decided := false
		for _, s := range c.Slots {
			decided = decided || s.Job == job && s.Slot.After(c.Healed) && s.State != "running"
		}
		if !decided {
			c.broken("%s: no slot was decided after the last fault", job)
		}
	}
}

// ledSince returns the first moment from the given one on at which somebody worked. The term began
// then, or it had begun before and is heard of again: that of a killed process is not.
func (c *checker) ledSince(job string, since time.Time) (first time.Time, ok bool) {
	begun := make(map[int64]time.Time)
	for _, r := range c.Records {
		if r.Job != job {
			continue
		}
		now := r.At.Add(c.Skew)
		if r.Kind == Begin {
			begun[r.Token] = now
		}
		began, led := begun[r.Token]
		if !led || r.Kind == Looked || r.Kind == Dismiss || now.Before(since) {
			continue
		}
		if began.Before(since) {
			began = since
		}
		if !ok || began.Before(first) {
			first, ok = began, true
		}
	}
	return first, ok
}

package check

// writes checks guarded writes: what a worker was told is what happened, and none of an older term
// commits after a newer one has begun. The sequence numbers of writes and of changes of the lease
// come from one sequence, and a takeover waits for the commit of whoever guards.
func (c *checker) writes() {
	type key struct {
		job   string
		value int64
	}
	there := make(map[key]bool)
	highest := make(map[string]int64)
	for _, w := range c.Writes {
		there[key{w.Job, w.Value}] = true
		c.report.Writes++
		if w.Token < highest[w.Job] {
			c.broken("%s: %s wrote under token %d after token %d had written",
				w.Job, w.Worker, w.Token, highest[w.Job])
		}
		highest[w.Job] = max(highest[w.Job], w.Token)
		if next, ok := c.overtaken(w.Job, w.Token); ok && w.Seq > next.Seq {
			c.broken("%s: %s wrote %d under token %d after token %d of %s had begun",
				w.Job, w.Worker, w.Value, w.Token, next.Token, next.Holder)
		}
	}
	for _, r := range c.Records {
		if r.Kind != Written {
			continue
		}
		found := there[key{r.Job, r.Value}]
		switch r.Outcome {
		case OK:
			if !found {
				c.broken("%s: %s's write of %d under token %d was confirmed and is not there",
					r.Job, r.Worker, r.Value, r.Token)
			}
		case Refused, Failed:
			c.report.Refused++
			if found {
				c.broken("%s: %s's write of %d under token %d was %s and is there",
					r.Job, r.Worker, r.Value, r.Token, r.Outcome)
			}
		}
	}
}

package check

import "time"

// leases checks the life of every row. At any moment of the database's time at most one lease is
// live, tokens grow, and nothing is brought back. There is one row for a job, so two live terms
// would be one that ends another before its time.
func (c *checker) leases() {
	for _, changes := range c.byJob {
		for i, l := range changes {
			c.change(i, l)
		}
	}
}

func (c *checker) change(i int, l LeaseChange) {
	switch {
	case l.Op == "DELETE":
		c.broken("%s: the lease row was deleted under token %d", l.Job, l.OldToken)
		return
	case l.Op == "INSERT":
		if i > 0 {
			c.broken("%s: the lease row was created again, with token %d", l.Job, l.Token)
		}
		c.report.Terms++
		return
	case l.Token < l.OldToken:
		c.broken("%s: token %d comes after %d", l.Job, l.Token, l.OldToken)
	case l.Token == l.OldToken && l.Holder != l.OldHolder:
		c.broken("%s: token %d went from %s to %s", l.Job, l.Token, l.OldHolder, l.Holder)
	}
	switch {
	case l.byOperator && l.Token != l.OldToken:
		if !l.Expires.Equal(l.OldExpires) {
			c.broken("%s: dismissing token %d moved the lease's end", l.Job, l.OldToken)
		}
	case l.begins:
		c.report.Terms++
		c.takeover(l)
	case l.releases:
		if l.Expires.After(l.At) || l.Expires.Before(l.OldRenewed) {
			c.broken("%s: token %d was released at %s to end at %s", l.Job, l.Token, at(l.At), at(l.Expires))
		}
	default:
		c.renewal(l)
	}
}

// takeover begins a term, after the end of the last one's lease unless its process was the same.
func (c *checker) takeover(l LeaseChange) {
	if l.Acquired.Before(l.OldExpires) && l.Holder != l.OldHolder {
		c.broken("%s: %s took the job under token %d at %s, while token %d of %s had it until %s",
			l.Job, l.Holder, l.Token, at(l.Acquired), l.OldToken, l.OldHolder, at(l.OldExpires))
	}
	// slack is what a busy machine may take from the row's new version to the trigger.
	const slack = 500 * time.Millisecond
	if left := l.Expires.Sub(l.At); left > c.Timing.TTL || left < c.Timing.TTL-slack {
		c.broken("%s: token %d has %v to live when it is written, want %v",
			l.Job, l.Token, left, c.Timing.TTL)
	}
}

// renewal goes on with a term: only while its lease lives.
func (c *checker) renewal(l LeaseChange) {
	// The statement looks at the clock to see whether the lease lives, and again to prolong it. A
	// server process that does not run in between may bring back a lease that has just ended. Whoever
	// had taken it meanwhile would have kept it.
	const between = 100 * time.Millisecond
	if l.Renewed.Sub(l.OldExpires) > between {
		c.broken("%s: token %d of %s was brought back at %s, after its lease had ended at %s",
			l.Job, l.Token, l.Holder, at(l.Renewed), at(l.OldExpires))
	}
	if !l.Acquired.Equal(l.OldAcquired) {
		c.broken("%s: a renewal moved the beginning of token %d", l.Job, l.Token)
	}
	// Not by when it is written: an update that waits for a lock was worked out before the wait.
	const slack = 250 * time.Millisecond // between two readings of the clock in one statement
	if lives := l.Expires.Sub(l.Renewed); lives < c.Timing.TTL || lives > c.Timing.TTL+slack {
		c.broken("%s: a renewal of token %d lets it live for %v, want %v",
			l.Job, l.Token, lives, c.Timing.TTL)
	}
}

// processes checks what each process believed about tokens.
func (c *checker) processes() {
	last := make(map[[2]string]int64)
	owner := make(map[string]map[int64]string)
	for _, r := range c.Records {
		switch r.Kind {
		case Failure:
			c.broken("%s: %s: %s", r.Worker, r.Job, r.Cause)
		case Elected:
			who := [2]string{r.Worker, r.Job}
			if r.Token <= last[who] {
				c.broken("%s: %s was elected under token %d after %d", r.Job, r.Worker, r.Token, last[who])
			}
			last[who] = r.Token
			if owner[r.Job] == nil {
				owner[r.Job] = make(map[int64]string)
			}
			if other := owner[r.Job][r.Token]; other != "" {
				c.broken("%s: %s and %s were both elected under token %d", r.Job, other, r.Worker, r.Token)
			}
			owner[r.Job][r.Token] = r.Worker
			if !c.granted(r.Job, r.Token) {
				c.broken("%s: %s was elected under token %d, which the table never had",
					r.Job, r.Worker, r.Token)
			}
		}
	}
}

func (c *checker) granted(job string, token int64) bool {
	for _, l := range c.byJob[job] {
		if l.begins && l.Token == token {
			return true
		}
	}
	return false
}

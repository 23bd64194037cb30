package check

import (
	"time"
)

type slotKey struct {
	job  string
	slot time.Time
}

// slots checks that every slot was decided once, by whoever led the job, and that what "done" slots
// wrote is there once.
func (c *checker) slots() {
	final := make(map[slotKey]SlotChange)
	first, last := make(map[string]time.Time), make(map[string]time.Time)
	for _, s := range c.Slots {
		key := slotKey{s.Job, s.Slot.UTC()}
		c.slotChange(s, final[key])
		final[key] = s
		if f, ok := first[s.Job]; !ok || s.Slot.Before(f) {
			first[s.Job] = s.Slot
		}
		if s.Slot.After(last[s.Job]) {
			last[s.Job] = s.Slot
		}
	}
	c.report.Slots += len(final)
	for _, job := range c.SlotJobs {
		if c.Timing.SlotEvery == 0 || first[job].IsZero() {
			continue
		}
		for at := first[job].UTC(); !at.After(last[job]); at = at.Add(c.Timing.SlotEvery) {
			if _, ok := final[slotKey{job, at}]; !ok {
				c.broken("%s: slot %v has no record", job, at)
			}
		}
	}
	effects := make(map[slotKey]int)
	for _, e := range c.Effects {
		effects[slotKey{e.Job, e.Slot.UTC()}]++
	}
	for key, s := range final {
		n := effects[key]
		switch {
		case s.State == "done" && n != 1:
			c.broken("%s: slot %v is done and has %d effects", key.job, key.slot, n)
		case s.State != "done" && n != 0:
			c.broken("%s: slot %v is %s and has %d effects", key.job, key.slot, s.State, n)
		case s.State == "running" && key.slot.Before(c.Healed) && last[key.job].After(key.slot):
			c.broken("%s: slot %v is left running under token %d", key.job, key.slot, s.Token)
		}
		delete(effects, key)
	}
	for key := range effects {
		c.broken("%s: slot %v has effects and no record", key.job, key.slot)
	}
}

// slotChange checks one step of a slot, and that the term that made it led the job.
func (c *checker) slotChange(s, before SlotChange) {
	if s.Op == "DELETE" {
		c.broken("%s: slot %v was deleted", s.Job, s.Slot)
		return
	}
	if s.OldState != before.State {
		c.broken("%s: slot %v goes on from %q, and was %q", s.Job, s.Slot, s.OldState, before.State)
	}
	if !c.allowed(s) {
		c.broken("%s: slot %v went from %q (attempt %d, token %d) to %q (attempt %d, token %d)",
			s.Job, s.Slot, s.OldState, s.OldAttempt, s.OldToken, s.State, s.Tries, s.Token)
	}
	if s.Slot.After(s.At) {
		c.broken("%s: slot %v was %s before its time, at %v", s.Job, s.Slot, s.State, s.At)
	}
	// A slot that failed, or was given up, may be recorded so as long as no successor has looked at
	// it. Beginning one, or completing it, is for the leader alone.
	next, ok := c.overtaken(s.Job, s.Token)
	if ok && s.Seq > next.Seq && s.State != "abandoned" && s.State != "failed" {
		c.broken("%s: slot %v became %s under token %d, after token %d of %s had begun",
			s.Job, s.Slot, s.State, s.Token, next.Token, next.Holder)
	}
}

func (c *checker) allowed(s SlotChange) bool {
	switch s.OldState {
	case "":
		return s.State == "running" && s.Tries == 1 || s.State == "missed" && s.Tries == 0
	case "running":
		if s.State == "running" { // taken over, or an answer to the claim got lost
			return s.Token > s.OldToken && s.Tries == s.OldAttempt+1 ||
				s.Token == s.OldToken && s.Tries == s.OldAttempt
		}
		if s.Token != s.OldToken {
			return false
		}
		givenBack := s.State == "abandoned" && s.Tries == s.OldAttempt-1 // its work was never begun
		ends := s.State == "done" || s.State == "failed" || s.State == "abandoned"
		return givenBack || ends && s.Tries == s.OldAttempt
	case "abandoned": // a term does not begin again what was cut off under it
		return s.State == "running" && s.Tries == s.OldAttempt+1 && s.Token > s.OldToken
	case "failed":
		return c.Timing.RepeatFailed && s.State == "running" && s.Tries == s.OldAttempt+1
	}
	return false // done and missed are final
}

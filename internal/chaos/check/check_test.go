package check

import (
	"strings"
	"testing"
	"time"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// ms is so many milliseconds after the beginning.
func ms(n int) time.Time { return epoch.Add(time.Duration(n) * time.Millisecond) }

func begins(seq int64, n int, holder string, token int64) LeaseChange {
	return LeaseChange{
		Seq: seq, At: ms(n), Op: "INSERT", Job: "job", Holder: holder, Token: token,
		Acquired: ms(n), Renewed: ms(n), Expires: ms(n + 1000),
	}
}

// after makes a change follow another one on the same row.
func (l LeaseChange) after(old LeaseChange) LeaseChange {
	l.Op, l.OldHolder, l.OldToken = "UPDATE", old.Holder, old.Token
	l.OldAcquired, l.OldRenewed, l.OldExpires = old.Acquired, old.Renewed, old.Expires
	return l
}

func renewed(seq int64, n int, old LeaseChange) LeaseChange {
	l := old.after(old)
	l.Seq, l.At, l.Renewed, l.Expires = seq, ms(n), ms(n), ms(n+1000)
	return l
}

func released(seq int64, n int, old LeaseChange) LeaseChange {
	l := old.after(old)
	l.Seq, l.At, l.Expires = seq, ms(n), ms(n)
	return l
}

func dismissed(seq int64, n int, old LeaseChange) LeaseChange {
	l := old.after(old)
	l.Seq, l.At, l.Holder, l.Token = seq, ms(n), "operator:1", old.Token+1
	return l
}

func record(worker, kind string, token int64, from, to int) Record {
	return Record{Worker: worker, Job: "job", Kind: kind, Token: token, From: ms(from), At: ms(to)}
}

func tick(worker string, token int64, n int) Record {
	r := record(worker, Tick, token, n, n)
	r.Before = ms(n)
	return r
}

func write(worker string, token int64, from, to int, read, value int64, outcome string) Record {
	r := record(worker, Written, token, from, to)
	r.Read, r.Value, r.Outcome = read, value, outcome
	return r
}

func slot(seq int64, n int, old, state string, before, tries int) SlotChange {
	return SlotChange{
		Seq: seq, At: ms(n), Op: "UPDATE", Job: "slots", Slot: epoch, OldState: old, State: state,
		OldToken: 1, Token: 1, OldAttempt: before, Tries: tries,
	}
}

// good is a history without a fault: a leads, writes and resigns; then b writes and runs a slot.
func good() History {
	first := begins(1, 0, "a", 1)
	kept := renewed(2, 300, first)
	freed := released(4, 700, kept)
	second := begins(5, 800, "b", 2).after(freed)
	third := begins(7, 0, "b", 1)
	third.Job = "slots"
	return History{
		Timing: Timing{
			TTL: time.Second, Look: 250 * time.Millisecond, Margin: 100 * time.Millisecond,
			SlotEvery: time.Second,
		},
		Jobs:     []string{"job"},
		SlotJobs: []string{"slots"},
		Operator: "operator:",
		Records: []Record{
			record("a", Campaign, 0, 0, 0), record("b", Campaign, 0, 0, 0),
			record("a", Elected, 1, 1, 1), record("a", Begin, 1, 2, 2), tick("a", 1, 400),
			write("a", 1, 500, 520, 0, 11, OK), record("a", End, 1, 650, 650),
			record("a", Resigned, 1, 710, 710),
			record("b", Elected, 2, 801, 801), record("b", Begin, 2, 802, 802), tick("b", 2, 850),
			write("b", 2, 900, 910, 11, 12, OK),
		},
		Leases: []LeaseChange{first, kept, freed, second, third},
		Writes: []Write{
			{Seq: 3, Job: "job", Worker: "a", Token: 1, Value: 11},
			{Seq: 6, Job: "job", Worker: "b", Token: 2, Value: 12},
		},
		Slots: []SlotChange{
			slot(8, 10, "", "running", 0, 1),
			slot(9, 20, "running", "done", 1, 1),
		},
		Effects: []Effect{{Job: "slots", Slot: epoch, Token: 1}},
	}
}

func TestGoodHistoryIsAccepted(t *testing.T) {
	r := Check(good())
	if len(r.Violations) > 0 {
		t.Error(r.Violations)
	}
	if r.Terms != 3 || r.Ticks != 2 || r.Writes != 2 || r.Slots != 1 {
		t.Errorf("counted %+v", r)
	}
}

func TestEveryBrokenPromiseIsFound(t *testing.T) {
	for _, c := range []struct {
		name, want string
		spoil      func(*History)
	}{
		{"a job is taken from a live leader", "while token", func(h *History) {
			h.Leases[3] = begins(5, 650, "b", 2).after(h.Leases[1])
		}},
		{"the row is deleted", "was deleted", func(h *History) {
			h.Leases[2] = LeaseChange{Seq: 4, At: ms(700), Op: "DELETE", Job: "job", OldToken: 1}
		}},
		{"the row is created twice", "created again", func(h *History) {
			h.Leases[3] = begins(5, 800, "b", 2)
		}},
		{"a token falls", "comes after", func(h *History) { h.Leases[3].OldToken = 3 }},
		{"a token changes hands", "went from", func(h *History) { h.Leases[3].Token = 1 }},
		{"a renewal brings a lease back", "brought back", func(h *History) {
			late := renewed(5, 900, h.Leases[2])
			h.Leases[3] = late
		}},
		{"a lease is born short", "to live", func(h *History) { h.Leases[3].Expires = ms(1200) }},
		{"a renewal is short", "lets it live", func(h *History) { h.Leases[1].Expires = ms(900) }},
		{"dismissing ends the lease at once", "moved the lease's end", func(h *History) {
			d := dismissed(4, 600, h.Leases[1])
			d.Expires = ms(600)
			h.Leases[2] = d
		}},
		{"a process is elected under one token twice", "elected under token 1 after 1", func(h *History) {
			h.Records = append(h.Records, record("a", Elected, 1, 20, 20))
		}},
		{"two processes are elected under one token", "were both elected", func(h *History) {
			h.Records = append(h.Records, record("b", Elected, 2, 820, 820),
				record("c", Elected, 2, 830, 830))
		}},
		{"an election that the table does not know", "never had", func(h *History) {
			h.Records = append(h.Records, record("c", Elected, 9, 990, 990))
		}},
		{"a term ends twice", "reported token", func(h *History) {
			h.Records = append(h.Records, record("a", Lost, 1, 720, 720))
		}},
		{"a leader goes on beside its successor", "took itself for the leader", func(h *History) {
			h.Records = append(h.Records, tick("a", 1, 810))
		}},
		{"a lease is released while the work goes on", "was released", func(h *History) {
			h.Records[6].At = ms(760)
		}},
		{"a lease is released while the work never returned", "was released", func(h *History) {
			h.Records[6].Kind = "other"
		}},
		{"a stale write commits", "after token 2", func(h *History) {
			h.Writes[0].Seq = 10
		}},
		{"a dismissed leader's write commits", "had begun", func(h *History) {
			h.Leases[2] = dismissed(4, 600, h.Leases[1])
			h.Leases[3] = begins(5, 1400, "b", 3).after(h.Leases[2])
			h.Writes = []Write{{Seq: 5, Job: "job", Worker: "a", Token: 1, Value: 11}}
		}},
		{"a confirmed write is lost", "is not there", func(h *History) { h.Writes = h.Writes[:1] }},
		{"a refused write is there", "was refused and is there", func(h *History) {
			h.Records[5].Outcome = Refused
		}},
		{"a write that does not see the one before", "no order", func(h *History) {
			h.Records[11].Read = 0
		}},
		{"a write after a successor's election", "no order", func(h *History) {
			h.Records = append(h.Records, write("a", 1, 950, 960, 12, 13, OK))
		}},
		{"a slot has no record", "has no record", func(h *History) {
			later := slot(12, 3000, "", "missed", 0, 0)
			later.Slot = ms(2000)
			h.Slots = append(h.Slots, later)
		}},
		{"a slot is run twice", "went from", func(h *History) {
			h.Slots = append(h.Slots, slot(10, 30, "done", "running", 1, 2))
		}},
		{"a slot is taken up again by the term that was cut off", "went from", func(h *History) {
			h.Slots[1] = slot(9, 20, "running", "abandoned", 1, 1)
			h.Slots = append(h.Slots, slot(10, 30, "abandoned", "running", 1, 2))
		}},
		{"a slot is given back twice", "went from", func(h *History) {
			h.Slots[1] = slot(9, 20, "running", "abandoned", 1, 0)
			h.Slots = append(h.Slots, slot(10, 30, "abandoned", "abandoned", 0, -1))
		}},
		{"a slot begins before its time", "before its time", func(h *History) {
			h.Slots[0].At = ms(-10)
		}},
		{"a slot is begun by a term that is over", "had begun", func(h *History) {
			next := begins(8, 0, "c", 2).after(h.Leases[4])
			next.Job, next.Acquired, next.At, next.Expires = "slots", ms(1000), ms(1000), ms(2000)
			h.Leases = append(h.Leases, next)
			h.Slots[0].Seq, h.Slots[1].Seq = 9, 10
		}},
		{"an effect is there twice", "2 effects", func(h *History) {
			h.Effects = append(h.Effects, h.Effects[0])
		}},
		{"an effect of a slot that failed", "1 effects", func(h *History) {
			h.Slots[1].State = "failed"
		}},
		{"an effect without a slot", "no record", func(h *History) { h.Effects[0].Slot = ms(5000) }},
		{"nobody leads again", "nobody led after", func(h *History) { h.Healed = ms(2000) }},
		{"somebody leads again late", "nobody led for", func(h *History) {
			h.Healed = ms(2000)
			h.Records = append(h.Records, record("b", Begin, 3, 9000, 9000))
		}},
		{"a worker fails", "on fire", func(h *History) {
			h.Records = append(h.Records, Record{Worker: "a", Kind: Failure, Cause: "on fire", At: ms(1)})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := good()
			c.spoil(&h)
			r := Check(h)
			if !strings.Contains(strings.Join(r.Violations, "\n"), c.want) {
				t.Errorf("got %q, want one that says %q", r.Violations, c.want)
			}
		})
	}
}

func TestStaleTickOfAStoppedProcessIsCountedApart(t *testing.T) {
	for _, c := range []struct {
		name           string
		pause          Pause
		stall          bool
		stale, stalled int
		broken         bool
	}{
		{"stopped over the takeover", Pause{"a", ms(600), ms(805)}, false, 1, 0, false},
		{"stopped for less than the margin", Pause{"a", ms(750), ms(805)}, false, 0, 0, true},
		{"another process was stopped", Pause{"b", ms(600), ms(805)}, false, 0, 0, true},
		{"woke long ago", Pause{"a", ms(100), ms(400)}, false, 0, 0, true},
		{"the machine did not run it", Pause{}, true, 0, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := good()
			h.Records = append(h.Records, tick("a", 1, 810))
			h.Pauses = []Pause{c.pause}
			if c.stall {
				h.Records = append(h.Records, record("a", Stall, 0, 650, 805))
			}
			r := Check(h)
			if r.StaleTicks != c.stale || r.Stalled != c.stalled || (len(r.Violations) > 0) != c.broken {
				t.Errorf("got %d and %d, %q", r.StaleTicks, r.Stalled, r.Violations)
			}
		})
	}
}

// What a killed process had begun may have happened or not; either must be explained.
func TestWriteOfAKilledProcessMayHaveHappened(t *testing.T) {
	for _, read := range []int64{11, 99} {
		h := good()
		begun := record("a", Writing, 1, 530, 530)
		begun.Value = 99
		h.Records = append(h.Records, begun)
		h.Records[11].Read = read
		if r := Check(h); len(r.Violations) > 0 {
			t.Errorf("a successor that read %d: %q", read, r.Violations)
		}
	}
}

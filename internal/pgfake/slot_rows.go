package pgfake

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/pgleader/pgleader/db"
)

// The states of slots.
const (
	StateRunning   = "running"
	StateDone      = "done"
	StateFailed    = "failed"
	StateAbandoned = "abandoned"
	StateMissed    = "missed"
	StateRequested = "requested"
)

// A slotKey is the primary key of the slot table. Slots are instants in UTC, so that they compare.
type slotKey struct {
	job  string
	slot time.Time
}

// keyOf cuts the instant to a microsecond, which is all that Postgres stores, as pgx does.
func keyOf(job string, slot time.Time) slotKey {
	return slotKey{job, slot.UTC().Truncate(time.Microsecond)}
}

// Slots returns all slots, by job and instant.
func (tb *Table) Slots() []db.LeaderSlot {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	keys := slices.SortedFunc(maps.Keys(tb.slots), func(a, b slotKey) int {
		return cmp.Or(cmp.Compare(a.job, b.job), a.slot.Compare(b.slot))
	})
	rows := make([]db.LeaderSlot, len(keys))
	for i, key := range keys {
		rows[i] = *tb.slots[key]
	}
	return rows
}

// PutSlot writes the row of a slot, in place of the one that there is.
func (tb *Table) PutSlot(row db.LeaderSlot) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	key := keyOf(row.JobName, row.Slot)
	row.Slot = key.slot
	tb.slots[key] = &row
}

// jobSlots returns a job's slots, oldest first. The caller holds tb.mu.
func (tb *Table) jobSlots(job string) []*db.LeaderSlot {
	var slots []*db.LeaderSlot
	for key, row := range tb.slots {
		if key.job == job {
			slots = append(slots, row)
		}
	}
	slices.SortFunc(slots, func(a, b *db.LeaderSlot) int { return a.Slot.Compare(b.Slot) })
	return slots
}

package leader

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/pgleader/pgleader/db"
)

// The kinds of statements about slots.
const (
	survey   = "survey"
	readS    = "read slot"
	abandon  = "abandon"
	claimS   = "claim slot"
	finishS  = "finish slot"
	requestS = "request slot"
	missS    = "miss slots"
	prune    = "prune"
	history  = "history"
)

// A slotKey is the primary key of the slot table. Slots are instants in UTC, so that they compare.
type slotKey struct {
	job  string
	slot time.Time
}

// live reports whether the term holds its lease. The caller holds tb.mu.
func (tb *table) holds(job, holder string, token int64) bool {
	row := tb.rows[job]
	return row != nil && row.Holder == holder && row.Token == token && row.ExpiresAt.After(tb.now())
}

// jobSlots returns a job's slots, oldest first. The caller holds tb.mu.
func (tb *table) jobSlots(job string) []*db.LeaderSlot {
	var slots []*db.LeaderSlot
	for key, row := range tb.slots {
		if key.job == job {
			slots = append(slots, row)
		}
	}
	slices.SortFunc(slots, func(a, b *db.LeaderSlot) int { return a.Slot.Compare(b.Slot) })
	return slots
}

func (p *path) SurveySlots(ctx context.Context, job string) (db.SurveySlotsRow, error) {
	return sendLocked(ctx, p, survey, job, func(tb *table) (db.SurveySlotsRow, error) {
		row := db.SurveySlotsRow{Now: tb.now(), Newest: time.Unix(0, 0), AcquiredAt: time.Unix(0, 0), RenewedAt: time.Unix(0, 0)}
		for _, slot := range tb.jobSlots(job) {
			if !slot.Slot.After(row.Now) {
				row.Newest = slot.Slot
			}
			row.Requested = row.Requested || slot.State == string(SlotRequested)
		}
		if lease := tb.rows[job]; lease != nil {
			row.AcquiredAt, row.RenewedAt = lease.AcquiredAt, lease.RenewedAt
		}
		return row, nil
	})
}

func (p *path) ReadSlot(ctx context.Context, arg db.ReadSlotParams) (db.ReadSlotRow, error) {
	return sendLocked(ctx, p, readS, arg.JobName, func(tb *table) (db.ReadSlotRow, error) {
		answer := db.ReadSlotRow{Now: tb.now()}
		if row := tb.slots[slotKey{arg.JobName, arg.Slot.UTC()}]; row != nil {
			answer.State, answer.Attempt, answer.Token = row.State, row.Attempt, row.Token
		}
		return answer, nil
	})
}

func (p *path) AbandonSlots(ctx context.Context, arg db.AbandonSlotsParams) ([]time.Time, error) {
	return sendLocked(ctx, p, abandon, arg.JobName, func(tb *table) ([]time.Time, error) {
		holds := tb.holds(arg.JobName, arg.Holder, arg.Token)
		var again []time.Time
		for _, row := range tb.jobSlots(arg.JobName) {
			if row.State == string(SlotRunning) && row.Token < arg.Token && holds {
				row.State, row.FinishedAt = string(SlotAbandoned), sql.NullTime{Time: tb.now(), Valid: true}
				row.Error = "the term of " + row.Holder + " ended before the work did"
			}
			restartable := row.State == string(SlotAbandoned) || row.State == string(SlotFailed) && arg.RepeatFailed
			restartable = restartable && row.Attempt < arg.MaxAttempts && !row.Slot.Before(arg.Since)
			if restartable || row.State == string(SlotRequested) {
				again = append(again, row.Slot)
			}
		}
		return again, nil
	})
}

func (p *path) ClaimSlot(ctx context.Context, arg db.ClaimSlotParams) (db.ClaimSlotRow, error) {
	return sendLocked(ctx, p, claimS, arg.JobName, func(tb *table) (db.ClaimSlotRow, error) {
		now, key := tb.now(), slotKey{arg.JobName, arg.Slot.UTC()}
		row := tb.slots[key]
		claimed := tb.holds(arg.JobName, arg.Holder, arg.Token) && !arg.Slot.After(now)
		switch {
		case !claimed:
		case row == nil:
			row = &db.LeaderSlot{JobName: arg.JobName, Slot: key.slot}
			tb.slots[key] = row
		case row.State == string(SlotRunning) && row.Token == arg.Token: // asked again
			return claimedRow(row, true), nil
		default:
			claimed = row.State == string(SlotRequested) || row.Attempt < arg.MaxAttempts && (row.State == string(SlotAbandoned) ||
				row.State == string(SlotRunning) && row.Token < arg.Token || row.State == string(SlotFailed) && arg.RepeatFailed)
		}
		if claimed {
			row.State, row.Attempt, row.Token, row.Holder = string(SlotRunning), row.Attempt+1, arg.Token, arg.Holder
			row.StartedAt, row.FinishedAt, row.Error = sql.NullTime{Time: now, Valid: true}, sql.NullTime{}, ""
		}
		if row == nil {
			return db.ClaimSlotRow{}, sql.ErrNoRows
		}
		return claimedRow(row, claimed), nil
	})
}

func claimedRow(row *db.LeaderSlot, claimed bool) db.ClaimSlotRow {
	return db.ClaimSlotRow{Claimed: claimed, State: row.State, Attempt: row.Attempt, Token: row.Token, Holder: row.Holder, Error: row.Error}
}

func (p *path) FinishSlot(ctx context.Context, arg db.FinishSlotParams) (int32, error) {
	return sendLocked(ctx, p, finishS, arg.JobName, func(tb *table) (int32, error) {
		row := tb.slots[slotKey{arg.JobName, arg.Slot.UTC()}]
		if row == nil || row.State != string(SlotRunning) || row.Token != arg.Token || row.Holder != arg.Holder {
			return 0, sql.ErrNoRows
		}
		row.State, row.Error, row.FinishedAt = arg.State, arg.Error, sql.NullTime{Time: tb.now(), Valid: true}
		return row.Attempt, nil
	})
}

func (p *path) RequestSlot(ctx context.Context, arg db.RequestSlotParams) (int64, error) {
	return sendLocked(ctx, p, requestS, arg.JobName, func(tb *table) (int64, error) {
		row := tb.slots[slotKey{arg.JobName, arg.Slot.UTC()}]
		if row == nil || row.State == string(SlotRunning) {
			return 0, nil
		}
		row.State, row.Error, row.FinishedAt = string(SlotRequested), arg.Error, sql.NullTime{}
		return 1, nil
	})
}

func (p *path) MissSlots(ctx context.Context, arg db.MissSlotsParams) (int64, error) {
	return sendLocked(ctx, p, missS, arg.JobName, func(tb *table) (int64, error) {
		var slots []time.Time
		if err := json.Unmarshal([]byte(arg.Slots), &slots); err != nil {
			return 0, err
		}
		n := int64(0)
		for _, at := range slots {
			key := slotKey{arg.JobName, at.UTC()}
			if tb.slots[key] != nil || !tb.holds(arg.JobName, arg.Holder, arg.Token) {
				continue
			}
			n++
			tb.slots[key] = &db.LeaderSlot{
				JobName: arg.JobName, Slot: key.slot, State: string(SlotMissed), Token: arg.Token, Holder: arg.Holder,
				FinishedAt: sql.NullTime{Time: tb.now(), Valid: true}, Error: arg.Error,
			}
		}
		return n, nil
	})
}

func (p *path) PruneSlots(ctx context.Context, arg db.PruneSlotsParams) (int64, error) {
	return sendLocked(ctx, p, prune, arg.JobName, func(tb *table) (int64, error) {
		now := tb.now()
		slots := slices.DeleteFunc(tb.jobSlots(arg.JobName), func(row *db.LeaderSlot) bool { return row.Slot.After(now) })
		old := tb.now().Add(-ttlOf(arg.KeepSeconds))
		n := int64(0)
		for i, row := range slots {
			if i < len(slots)-1 && row.State != string(SlotRunning) && row.State != string(SlotRequested) && row.Slot.Before(old) && n < int64(arg.MaxRows) {
				delete(tb.slots, slotKey{row.JobName, row.Slot})
				n++
			}
		}
		return n, nil
	})
}

func (p *path) ListSlots(ctx context.Context, arg db.ListSlotsParams) ([]db.LeaderSlot, error) {
	return sendLocked(ctx, p, history, arg.JobName, func(tb *table) ([]db.LeaderSlot, error) {
		var rows []db.LeaderSlot
		for _, row := range slices.Backward(tb.jobSlots(arg.JobName)) {
			if len(rows) < int(arg.MaxRows) {
				rows = append(rows, *row)
			}
		}
		return rows, nil
	})
}

// sendLocked is send for a statement that is carried out under the table's mutex.
func sendLocked[T any](ctx context.Context, p *path, kind, job string, carryOut func(*table) (T, error)) (T, error) {
	return send(ctx, p, kind, []string{job}, func() (T, error) {
		p.table.mu.Lock()
		defer p.table.mu.Unlock()
		return carryOut(p.table)
	})
}

// dump returns all slots, by job and instant.
func (tb *table) dump() []db.LeaderSlot {
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

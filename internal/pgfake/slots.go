package pgfake

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
	row.Slot = row.Slot.UTC()
	tb.slots[slotKey{row.JobName, row.Slot}] = &row
}

// Complete does at once what a guarded transaction does that completes a slot: it makes a running
// slot of the job's current term done, if effect, called meanwhile, returns nil. It returns
// sql.ErrNoRows if the term or the slot is over.
func (tb *Table) Complete(job string, slot time.Time, token int64, effect func() error) error {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	lease, row := tb.leases[job], tb.slots[slotKey{job, slot.UTC()}]
	if lease == nil || lease.Token != token ||
		row == nil || row.State != StateRunning || row.Token != token {
		return sql.ErrNoRows
	}
	if err := effect(); err != nil {
		return err
	}
	row.State = StateDone
	return nil
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

// SurveySlots tells where a job stands.
func (p *Path) SurveySlots(ctx context.Context, jobName string) (db.SurveySlotsRow, error) {
	return sendLocked(ctx, p, KindSurvey, jobName, func(tb *Table) (db.SurveySlotsRow, error) {
		never := time.Unix(0, 0)
		row := db.SurveySlotsRow{Now: tb.now(), Newest: never, AcquiredAt: never, RenewedAt: never}
		for _, slot := range tb.jobSlots(jobName) {
			if !slot.Slot.After(row.Now) {
				row.Newest = slot.Slot
			}
			row.Requested = row.Requested || slot.State == StateRequested
		}
		if lease := tb.leases[jobName]; lease != nil {
			row.AcquiredAt, row.RenewedAt = lease.AcquiredAt, lease.RenewedAt
		}
		return row, nil
	})
}

// ReadSlot returns the state of one slot and the database's time.
func (p *Path) ReadSlot(ctx context.Context, arg db.ReadSlotParams) (db.ReadSlotRow, error) {
	return sendLocked(ctx, p, KindReadSlot, arg.JobName, func(tb *Table) (db.ReadSlotRow, error) {
		answer := db.ReadSlotRow{Now: tb.now()}
		if row := tb.slots[slotKey{arg.JobName, arg.Slot.UTC()}]; row != nil {
			answer.State, answer.Attempt, answer.Token = row.State, row.Attempt, row.Token
		}
		return answer, nil
	})
}

// AbandonSlots marks what older terms left running, and returns what may be started again.
func (p *Path) AbandonSlots(
	ctx context.Context, arg db.AbandonSlotsParams,
) ([]db.AbandonSlotsRow, error) {
	return sendLocked(ctx, p, KindAbandon, arg.JobName, func(tb *Table) ([]db.AbandonSlotsRow, error) {
		holds := tb.holds(arg.JobName, arg.Holder, arg.Token)
		var again []db.AbandonSlotsRow
		for _, row := range tb.jobSlots(arg.JobName) {
			if row.State == StateRunning && row.Token < arg.Token && holds {
				row.State, row.FinishedAt = StateAbandoned, sql.NullTime{Time: tb.now(), Valid: true}
				row.Error = "the term of " + row.Holder + " ended before the work did"
			}
			restartable := row.State == StateAbandoned && row.Token < arg.Token ||
				row.State == StateFailed && arg.RepeatFailed
			restartable = restartable && row.Attempt < arg.MaxAttempts && !row.Slot.Before(arg.Since)
			if restartable || row.State == StateRequested {
				again = append(again, db.AbandonSlotsRow{Slot: row.Slot, Attempt: row.Attempt})
			}
		}
		return again, nil
	})
}

// ClaimSlot starts a slot under the caller's term, if its time has come and it is not decided.
func (p *Path) ClaimSlot(ctx context.Context, arg db.ClaimSlotParams) (db.ClaimSlotRow, error) {
	return sendLocked(ctx, p, KindClaimSlot, arg.JobName, func(tb *Table) (db.ClaimSlotRow, error) {
		now, key := tb.now(), slotKey{arg.JobName, arg.Slot.UTC()}
		row := tb.slots[key]
		claimed := tb.holds(arg.JobName, arg.Holder, arg.Token) && !arg.Slot.After(now)
		switch {
		case !claimed:
		case row == nil:
			row = &db.LeaderSlot{JobName: arg.JobName, Slot: key.slot, Attempt: arg.LastAttempt}
			tb.slots[key] = row
		case row.State == StateRunning && row.Token == arg.Token: // asked again
			return claimedRow(row, row.Attempt == arg.LastAttempt+1), nil
		default:
			claimed = startable(row, arg)
		}
		if claimed {
			row.State, row.Attempt = StateRunning, row.Attempt+1
			row.Token, row.Holder = arg.Token, arg.Holder
			row.StartedAt, row.FinishedAt = sql.NullTime{Time: now, Valid: true}, sql.NullTime{}
			row.Error = ""
		}
		if row == nil {
			return db.ClaimSlotRow{}, sql.ErrNoRows
		}
		return claimedRow(row, claimed), nil
	})
}

// startable reports whether a slot that has a row may be started, anew, by a live term.
func startable(row *db.LeaderSlot, arg db.ClaimSlotParams) bool {
	left := row.State == StateFailed && arg.RepeatFailed ||
		row.Token < arg.Token && (row.State == StateAbandoned || row.State == StateRunning)
	return row.Attempt == arg.LastAttempt &&
		(row.State == StateRequested || left && row.Attempt < arg.MaxAttempts)
}

func claimedRow(row *db.LeaderSlot, claimed bool) db.ClaimSlotRow {
	return db.ClaimSlotRow{
		Claimed: claimed, State: row.State, Attempt: row.Attempt, Token: row.Token,
	}
}

// FinishSlot decides the attempt that runs under exactly this term.
func (p *Path) FinishSlot(ctx context.Context, arg db.FinishSlotParams) (int64, error) {
	return sendLocked(ctx, p, KindFinishSlot, arg.JobName, func(tb *Table) (int64, error) {
		row := tb.running(arg.JobName, arg.Slot, arg.Holder, arg.Token, arg.Attempt)
		if row == nil {
			return 0, nil
		}
		row.State, row.Error = arg.State, arg.Error
		row.FinishedAt = sql.NullTime{Time: tb.now(), Valid: true}
		return 1, nil
	})
}

// GiveBackSlot undoes a claim whose work was never begun.
func (p *Path) GiveBackSlot(ctx context.Context, arg db.GiveBackSlotParams) (int64, error) {
	return sendLocked(ctx, p, KindGiveBackSlot, arg.JobName, func(tb *Table) (int64, error) {
		row := tb.running(arg.JobName, arg.Slot, arg.Holder, arg.Token, arg.Attempt)
		if row == nil {
			return 0, nil
		}
		row.State, row.Error, row.Attempt = StateAbandoned, arg.Error, row.Attempt-1
		row.StartedAt, row.FinishedAt = sql.NullTime{}, sql.NullTime{Time: tb.now(), Valid: true}
		return 1, nil
	})
}

// running returns the row of an attempt that runs, or nil. The caller holds tb.mu.
func (tb *Table) running(
	job string, slot time.Time, holder string, token int64, attempt int32,
) *db.LeaderSlot {
	row := tb.slots[slotKey{job, slot.UTC()}]
	if row == nil || row.State != StateRunning || row.Token != token || row.Holder != holder ||
		row.Attempt != attempt {
		return nil
	}
	return row
}

// RequestSlot marks a decided slot to be started again.
func (p *Path) RequestSlot(ctx context.Context, arg db.RequestSlotParams) (int64, error) {
	return sendLocked(ctx, p, KindRequestSlot, arg.JobName, func(tb *Table) (int64, error) {
		row := tb.slots[slotKey{arg.JobName, arg.Slot.UTC()}]
		if row == nil || row.State == StateRunning || row.Attempt != arg.Attempt {
			return 0, nil
		}
		row.State, row.Error, row.FinishedAt = StateRequested, arg.Error, sql.NullTime{}
		return 1, nil
	})
}

// MissSlots records the slots in a JSON array of timestamps as missed, unless they have rows.
func (p *Path) MissSlots(ctx context.Context, arg db.MissSlotsParams) (int64, error) {
	return sendLocked(ctx, p, KindMissSlots, arg.JobName, func(tb *Table) (int64, error) {
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
				JobName: arg.JobName, Slot: key.slot, State: StateMissed,
				Token: arg.Token, Holder: arg.Holder,
				FinishedAt: sql.NullTime{Time: tb.now(), Valid: true}, Error: arg.Error,
			}
		}
		return n, nil
	})
}

// PruneSlots deletes some of the job's old decided slots.
func (p *Path) PruneSlots(ctx context.Context, arg db.PruneSlotsParams) (int64, error) {
	return sendLocked(ctx, p, KindPrune, arg.JobName, func(tb *Table) (int64, error) {
		now := tb.now()
		old := now.Add(-duration(arg.KeepSeconds))
		slots := tb.jobSlots(arg.JobName)
		slots = slices.DeleteFunc(slots, func(row *db.LeaderSlot) bool { return row.Slot.After(now) })
		n := int64(0)
		for i, row := range slots {
			decided := row.State != StateRunning && row.State != StateRequested &&
				row.FinishedAt.Time.Before(old)
			newest := i == len(slots)-1
			if decided && !newest && row.Slot.Before(old) && n < int64(arg.MaxRows) {
				delete(tb.slots, slotKey{row.JobName, row.Slot})
				n++
			}
		}
		return n, nil
	})
}

// ListSlots returns a job's newest slots, newest first.
func (p *Path) ListSlots(ctx context.Context, arg db.ListSlotsParams) ([]db.LeaderSlot, error) {
	return sendLocked(ctx, p, KindListSlots, arg.JobName, func(tb *Table) ([]db.LeaderSlot, error) {
		var rows []db.LeaderSlot
		for _, row := range slices.Backward(tb.jobSlots(arg.JobName)) {
			if len(rows) < int(arg.MaxRows) {
				rows = append(rows, *row)
			}
		}
		return rows, nil
	})
}

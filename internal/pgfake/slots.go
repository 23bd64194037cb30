package pgfake

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"time"

	"github.com/pgleader/pgleader/db"
)

// SurveySlots tells where a job stands.
func (p *Path) SurveySlots(ctx context.Context, jobName string) (db.SurveySlotsRow, error) {
	return ask(ctx, p, KindSurvey, jobName, func(tb *Table) (db.SurveySlotsRow, error) {
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
	return ask(ctx, p, KindReadSlot, arg.JobName, func(tb *Table) (db.ReadSlotRow, error) {
		return tb.readSlot(tb.slots[keyOf(arg.JobName, arg.Slot)]), nil
	})
}

// readSlot is the answer of ReadSlot about a row, or about none. The caller holds tb.mu.
func (tb *Table) readSlot(row *db.LeaderSlot) db.ReadSlotRow {
	answer := db.ReadSlotRow{Now: tb.now()}
	if row != nil {
		answer.State, answer.Attempt, answer.Token = row.State, row.Attempt, row.Token
	}
	return answer
}

// AbandonSlots marks what older terms left running, and returns what may be started again.
func (p *Path) AbandonSlots(
	ctx context.Context, arg db.AbandonSlotsParams,
) ([]db.AbandonSlotsRow, error) {
	return ask(ctx, p, KindAbandon, arg.JobName, func(tb *Table) ([]db.AbandonSlotsRow, error) {
		holds := tb.holds(arg.JobName, arg.Holder, arg.Token)
		since := keyOf(arg.JobName, arg.Since).slot
		firstSince := keyOf(arg.JobName, arg.FirstSince).slot
		left := func(row *db.LeaderSlot) bool {
			return holds && row.State == StateRunning && row.Token < arg.Token
		}
		slots := tb.jobSlots(arg.JobName)
		if slices.ContainsFunc(slots, func(row *db.LeaderSlot) bool {
			return left(row) && tb.locks.keepsSlot(keyOf(row.JobName, row.Slot))
		}) {
			return nil, errLocked
		}
		var again []db.AbandonSlotsRow
		for _, row := range slots {
			if left(row) {
				row.State, row.FinishedAt = StateAbandoned, sql.NullTime{Time: tb.now(), Valid: true}
				row.Error = "the term of " + row.Holder + " ended before the work did"
			}
			restartable := row.State == StateAbandoned && row.Token < arg.Token ||
				row.State == StateFailed && arg.RepeatFailed
			restartable = restartable && row.Attempt < arg.MaxAttempts && !row.Slot.Before(since) &&
				(row.Attempt > 0 || !row.Slot.Before(firstSince))
			if restartable || row.State == StateRequested {
				again = append(again, db.AbandonSlotsRow{Slot: row.Slot, Attempt: row.Attempt})
			}
		}
		return again, nil
	})
}

// ClaimSlot starts a slot under the caller's term, if its time has come and it is not decided.
func (p *Path) ClaimSlot(ctx context.Context, arg db.ClaimSlotParams) (db.ClaimSlotRow, error) {
	return ask(ctx, p, KindClaimSlot, arg.JobName, func(tb *Table) (db.ClaimSlotRow, error) {
		now, key := tb.now(), keyOf(arg.JobName, arg.Slot)
		row := tb.slots[key]
		claimed := tb.holds(arg.JobName, arg.Holder, arg.Token) && !key.slot.After(now)
		switch {
		case !claimed:
		case tb.locks.keepsSlot(key):
			return db.ClaimSlotRow{}, errLocked
		case row == nil:
			row = &db.LeaderSlot{JobName: arg.JobName, Slot: key.slot, Attempt: arg.LastAttempt}
			tb.slots[key] = row
		case row.State == StateRunning && row.Token == arg.Token: // asked again
			return claimedRow(row, row.Attempt == arg.LastAttempt+1), nil
		default:
			claimed = startable(row, arg)
		}
		if claimed {
			requested := row.State == StateRequested
			row.State, row.Attempt = StateRunning, row.Attempt+1
			row.Token, row.Holder = arg.Token, arg.Holder
			row.StartedAt, row.FinishedAt = sql.NullTime{Time: now, Valid: true}, sql.NullTime{}
			if !requested {
				row.Error = ""
			}
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
	return ask(ctx, p, KindFinishSlot, arg.JobName, func(tb *Table) (int64, error) {
		key := keyOf(arg.JobName, arg.Slot)
		row := tb.finished(tb.slots[key], arg)
		if row == nil {
			return 0, nil
		}
		if tb.locks.keepsSlot(key) {
			return 0, errLocked
		}
		tb.slots[key] = row
		return 1, nil
	})
}

// finished is the row as FinishSlot makes it, or nil if it changes nothing. The caller holds tb.mu.
func (tb *Table) finished(row *db.LeaderSlot, arg db.FinishSlotParams) *db.LeaderSlot {
	if !runs(row, arg.Holder, arg.Token, arg.Attempt) {
		return nil
	}
	decided := *row
	decided.State, decided.Error = arg.State, arg.Error
	decided.FinishedAt = sql.NullTime{Time: tb.now(), Valid: true}
	return &decided
}

// runs reports whether exactly this attempt is running.
func runs(row *db.LeaderSlot, holder string, token int64, attempt int32) bool {
	return row != nil && row.State == StateRunning &&
		row.Token == token && row.Holder == holder && row.Attempt == attempt
}

// GiveBackSlot undoes a claim whose work was never begun.
func (p *Path) GiveBackSlot(ctx context.Context, arg db.GiveBackSlotParams) (int64, error) {
	return ask(ctx, p, KindGiveBackSlot, arg.JobName, func(tb *Table) (int64, error) {
		key := keyOf(arg.JobName, arg.Slot)
		row := tb.slots[key]
		if !runs(row, arg.Holder, arg.Token, arg.Attempt) {
			return 0, nil
		}
		if tb.locks.keepsSlot(key) {
			return 0, errLocked
		}
		row.StartedAt = sql.NullTime{}
		if arg.KeepRequest && row.Error != "" {
			row.State = StateRequested
			return 1, nil
		}
		row.State, row.Error, row.Attempt = StateAbandoned, arg.Error, row.Attempt-1
		row.FinishedAt = sql.NullTime{Time: tb.now(), Valid: true}
		return 1, nil
	})
}

// RequestSlot marks a decided slot to be started again.
func (p *Path) RequestSlot(ctx context.Context, arg db.RequestSlotParams) (int64, error) {
	return ask(ctx, p, KindRequestSlot, arg.JobName, func(tb *Table) (int64, error) {
		key := keyOf(arg.JobName, arg.Slot)
		row := tb.slots[key]
		if row == nil || row.State == StateRunning || row.Attempt != arg.Attempt {
			return 0, nil
		}
		if tb.locks.keepsSlot(key) {
			return 0, errLocked
		}
		if row.State == StateAbandoned && !row.StartedAt.Valid { // it was given back
			row.Attempt++
		}
		row.State, row.Error, row.FinishedAt = StateRequested, arg.Error, sql.NullTime{}
		return 1, nil
	})
}

// MissSlots records the slots in a JSON array of timestamps as missed, unless they have rows.
func (p *Path) MissSlots(ctx context.Context, arg db.MissSlotsParams) (int64, error) {
	var slots []time.Time
	if err := json.Unmarshal([]byte(arg.Slots), &slots); err != nil {
		return 0, err
	}
	return ask(ctx, p, KindMissSlots, arg.JobName, func(tb *Table) (int64, error) {
		if !tb.holds(arg.JobName, arg.Holder, arg.Token) {
			return 0, nil
		}
		if slices.ContainsFunc(slots, func(at time.Time) bool {
			return tb.locks.keepsSlot(keyOf(arg.JobName, at)) // it may be gone after the commit
		}) {
			return 0, errLocked
		}
		n := int64(0)
		for _, at := range slots {
			key := keyOf(arg.JobName, at)
			if tb.slots[key] != nil {
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
	return ask(ctx, p, KindPrune, arg.JobName, func(tb *Table) (int64, error) {
		now := tb.now()
		keep := now.Add(-duration(arg.KeepSeconds))
		slots := tb.jobSlots(arg.JobName)
		slots = slices.DeleteFunc(slots, func(row *db.LeaderSlot) bool { return row.Slot.After(now) })
		var old []*db.LeaderSlot
		for i, row := range slots {
			decided := row.State != StateRunning && row.State != StateRequested &&
				!row.FinishedAt.Time.After(keep)
			newest := i == len(slots)-1
			locked := tb.locks.keepsSlot(keyOf(row.JobName, row.Slot)) // and not waited for
			if decided && !newest && !locked && row.Slot.Before(keep) && len(old) < int(arg.MaxRows) {
				old = append(old, row)
			}
		}
		for _, row := range old {
			delete(tb.slots, keyOf(row.JobName, row.Slot))
		}
		return int64(len(old)), nil
	})
}

// ListSlots returns a job's newest slots, newest first.
func (p *Path) ListSlots(ctx context.Context, arg db.ListSlotsParams) ([]db.LeaderSlot, error) {
	return ask(ctx, p, KindListSlots, arg.JobName, func(tb *Table) ([]db.LeaderSlot, error) {
		var rows []db.LeaderSlot
		for _, row := range slices.Backward(tb.jobSlots(arg.JobName)) {
			if len(rows) < int(arg.MaxRows) {
				rows = append(rows, *row)
			}
		}
		return rows, nil
	})
}

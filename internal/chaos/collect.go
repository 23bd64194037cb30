//go:build unix

package main

import (
	"context"
	"database/sql"
	"time"

	"github.com/pgleader/pgleader/internal/chaos/check"
)

// graceOfRecovery is what becoming a leader may take beyond what is promised, on a machine that has
// time for it.
const graceOfRecovery = 2 * time.Second

// collect reads what the triggers and the workers wrote about this history's jobs.
func (h *history) collect(
	ctx context.Context, healed time.Time, skew time.Duration,
) (check.History, error) {
	h.mu.Lock()
	c := check.History{
		Seed: h.seed, Timing: h.timing, Jobs: h.jobs, SlotJobs: h.slotJobs,
		Skew: skew, Operator: operatorName,
		Records: h.records, Healed: healed, Grace: graceOfRecovery + 4*h.connecting,
	}
	for _, p := range h.pauses {
		c.Pauses = append(c.Pauses,
			check.Pause{Worker: p.Worker, From: p.From.Add(skew), To: p.To.Add(skew)})
	}
	h.mu.Unlock()

	for _, job := range h.jobs {
		r := check.Record{Worker: "observer", Kind: check.Final, Job: job, From: time.Now()}
		err := h.db.QueryRowContext(ctx,
			"SELECT value FROM chaos_register WHERE job_name = $1", job).Scan(&r.Read)
		if err != nil {
			return c, err
		}
		r.At = time.Now()
		c.Records = append(c.Records, r)
	}
	var err error
	for _, job := range append(append([]string(nil), h.jobs...), h.slotJobs...) {
		if c.Leases, err = all(ctx, h.db, c.Leases, leaseChanges, job, scanLease); err != nil {
			return c, err
		}
		if c.Writes, err = all(ctx, h.db, c.Writes, writes, job, scanWrite); err != nil {
			return c, err
		}
		if c.Slots, err = all(ctx, h.db, c.Slots, slotChanges, job, scanSlot); err != nil {
			return c, err
		}
		if c.Effects, err = all(ctx, h.db, c.Effects, effects, job, scanEffect); err != nil {
			return c, err
		}
	}
	return c, nil
}

const (
	leaseChanges = `SELECT seq, at, op, job_name,
		coalesce((old).holder, ''), coalesce((new).holder, ''),
		coalesce((old).token, 0), coalesce((new).token, 0),
		coalesce((old).acquired_at, to_timestamp(0)), coalesce((new).acquired_at, to_timestamp(0)),
		coalesce((old).renewed_at, to_timestamp(0)), coalesce((new).renewed_at, to_timestamp(0)),
		coalesce((old).expires_at, to_timestamp(0)), coalesce((new).expires_at, to_timestamp(0))
		FROM chaos_lease WHERE job_name = $1`
	writes      = `SELECT seq, job_name, worker, token, value FROM chaos_write WHERE job_name = $1`
	slotChanges = `SELECT seq, at, op, job_name, coalesce((new).slot, (old).slot),
		coalesce((old).state, ''), coalesce((new).state, ''),
		coalesce((old).token, 0), coalesce((new).token, 0),
		coalesce((old).attempt, 0), coalesce((new).attempt, 0)
		FROM chaos_slot WHERE job_name = $1`
	effects = `SELECT job_name, slot, token FROM chaos_effect WHERE job_name = $1`
)

func scanLease(r *sql.Rows, l *check.LeaseChange) error {
	return r.Scan(&l.Seq, &l.At, &l.Op, &l.Job, &l.OldHolder, &l.Holder, &l.OldToken, &l.Token,
		&l.OldAcquired, &l.Acquired, &l.OldRenewed, &l.Renewed, &l.OldExpires, &l.Expires)
}

func scanWrite(r *sql.Rows, w *check.Write) error {
	return r.Scan(&w.Seq, &w.Job, &w.Worker, &w.Token, &w.Value)
}

func scanSlot(r *sql.Rows, s *check.SlotChange) error {
	return r.Scan(&s.Seq, &s.At, &s.Op, &s.Job, &s.Slot, &s.OldState, &s.State,
		&s.OldToken, &s.Token, &s.OldAttempt, &s.Tries)
}

func scanEffect(r *sql.Rows, e *check.Effect) error { return r.Scan(&e.Job, &e.Slot, &e.Token) }

// all appends the rows of a query.
func all[T any](
	ctx context.Context, db *sql.DB, to []T, query, job string, scan func(*sql.Rows, *T) error,
) ([]T, error) {
	rows, err := db.QueryContext(ctx, query, job)
	if err != nil {
		return to, err
	}
	defer rows.Close()
	for rows.Next() {
		var v T
		if err := scan(rows, &v); err != nil {
			return to, err
		}
		to = append(to, v)
	}
	return to, rows.Err()
}

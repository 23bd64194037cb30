package pgfake_test

import (
	"context"
	"fmt"
	"time"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/internal/pgfake"
)

// A question is a statement, or several, about a job that a leads and about its slots.
type question func(ctx context.Context, q db.Querier, job string) (any, error)

var (
	due     = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // when a bubble begins
	earlier = due.Add(-time.Hour)
)

var questions = map[string]question{
	"acquire":            acquire("b", 0),
	"acquire again":      acquire("a", 0),
	"acquire anew":       acquire("a", 1),
	"claim":              claim("a", 1, due, 0),
	"claim another":      claim("a", 1, earlier, 0),
	"claim, overtaken":   claim("b", 2, due, 1),
	"finish":             finish("a", 1),
	"finish, overtaken":  finish("b", 2),
	"abandon":            abandon("a", 1),
	"abandon, overtaken": abandon("b", 2),
	"miss":               miss(due),
	"miss another":       miss(earlier),
	"renew": func(ctx context.Context, q db.Querier, job string) (any, error) {
		return q.RenewLease(ctx, db.RenewLeaseParams{
			JobName: job, Holder: "a", Token: 1, TTLSeconds: 3600,
		})
	},
	"renew many": func(ctx context.Context, q db.Querier, job string) (any, error) {
		terms := fmt.Sprintf(`[{"job_name": %q, "token": 1}]`, job)
		return q.RenewLeases(ctx, db.RenewLeasesParams{Terms: terms, Holder: "a", TTLSeconds: 3600})
	},
	"release": release,
	"release and take over": func(ctx context.Context, q db.Querier, job string) (any, error) {
		if _, err := release(ctx, q, job); err != nil {
			return nil, err
		}
		return acquire("b", 0)(ctx, q, job)
	},
	"free": func(ctx context.Context, q db.Querier, job string) (any, error) {
		row, err := q.LookLease(ctx, job)
		if err != nil {
			return nil, err
		}
		return q.FreeLease(ctx, db.FreeLeaseParams{
			JobName: job, Token: row.LeaderLease.Token, RenewedAt: row.LeaderLease.RenewedAt,
		})
	},
	"dismiss": func(ctx context.Context, q db.Querier, job string) (any, error) {
		return q.DismissLease(ctx, db.DismissLeaseParams{
			JobName: job, DismissedBy: "operator", Token: 1,
		})
	},
	"guard": func(ctx context.Context, q db.Querier, job string) (any, error) {
		return q.GuardLease(ctx, db.GuardLeaseParams{JobName: job, Holder: "a", Token: 1})
	},
	"read": func(ctx context.Context, q db.Querier, job string) (any, error) {
		row, err := q.ReadSlot(ctx, db.ReadSlotParams{JobName: job, Slot: due})
		return []any{row.State, row.Attempt, row.Token}, err
	},
	"request": func(ctx context.Context, q db.Querier, job string) (any, error) {
		return q.RequestSlot(ctx, db.RequestSlotParams{
			JobName: job, Slot: due, Attempt: 1, Error: "again",
		})
	},
	"prune": func(ctx context.Context, q db.Querier, job string) (any, error) {
		return q.PruneSlots(ctx, db.PruneSlotsParams{JobName: job, MaxRows: 10})
	},
}

func acquire(holder string, known int64) question {
	return func(ctx context.Context, q db.Querier, job string) (any, error) {
		row, err := q.AcquireLease(ctx, db.AcquireLeaseParams{
			JobName: job, Holder: holder, KnownToken: known, TTLSeconds: 3600,
		})
		return []any{row.Acquired, row.Holder, row.Token}, err
	}
}

func release(ctx context.Context, q db.Querier, job string) (any, error) {
	return q.ReleaseLease(ctx, db.ReleaseLeaseParams{JobName: job, Holder: "a", Token: 1})
}

func claim(holder string, token int64, slot time.Time, last int32) question {
	return func(ctx context.Context, q db.Querier, job string) (any, error) {
		return q.ClaimSlot(ctx, db.ClaimSlotParams{
			JobName: job, Holder: holder, Token: token, Slot: slot, LastAttempt: last, MaxAttempts: 3,
		})
	}
}

func finish(holder string, token int64) question { return finishAt(holder, token, due) }

func finishAt(holder string, token int64, slot time.Time) question {
	return func(ctx context.Context, q db.Querier, job string) (any, error) {
		return q.FinishSlot(ctx, db.FinishSlotParams{
			JobName: job, Holder: holder, Token: token, Slot: slot, Attempt: 1,
			State: pgfake.StateFailed,
		})
	}
}

func abandon(holder string, token int64) question {
	return func(ctx context.Context, q db.Querier, job string) (any, error) {
		slots, err := q.AbandonSlots(ctx, db.AbandonSlotsParams{
			JobName: job, Holder: holder, Token: token, Since: due, MaxAttempts: 3,
		})
		return restarts(slots), err
	}
}

func miss(slot time.Time) question {
	return func(ctx context.Context, q db.Querier, job string) (any, error) {
		return q.MissSlots(ctx, db.MissSlotsParams{
			JobName: job, Holder: "a", Token: 1, Slots: slot.Format(`["` + time.RFC3339 + `"]`),
		})
	}
}

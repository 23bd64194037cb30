package pgfake

import (
	"context"
	"database/sql"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/pgleader/pgleader/db"
)

// AcquireLease takes the job's lease for holder if it is free.
func (p *Path) AcquireLease(
	ctx context.Context, arg db.AcquireLeaseParams,
) (db.AcquireLeaseRow, error) {
	return ask(ctx, p, KindAcquire, arg.JobName, func(tb *Table) (db.AcquireLeaseRow, error) {
		row, now := tb.leases[arg.JobName], tb.now()
		acquired := false
		switch {
		case row == nil:
			tb.begin(arg.JobName, arg.Holder)
			row = &db.LeaderLease{JobName: arg.JobName, Token: arg.KnownToken + 1, AcquiredAt: now}
			tb.leases[arg.JobName] = row
			acquired = true
		case tb.locks.keepsTakeover(arg.JobName): // SKIP LOCKED
		case row.ExpiresAt.After(now) && row.Holder == arg.Holder && row.Token > arg.KnownToken:
			acquired = true
		case !row.ExpiresAt.After(now) || row.Holder == arg.Holder:
			tb.begin(arg.JobName, arg.Holder)
			row.Token, row.AcquiredAt = row.Token+1, now
			acquired = true
		}
		if acquired {
			row.Holder, row.RenewedAt = arg.Holder, now
			row.ExpiresAt = now.Add(duration(arg.TTLSeconds))
		}
		return db.AcquireLeaseRow{
			Acquired: acquired, JobName: row.JobName, Holder: row.Holder, Token: row.Token,
			AcquiredAt: row.AcquiredAt, RenewedAt: row.RenewedAt, ExpiresAt: row.ExpiresAt,
			TimeLeft: row.ExpiresAt.Sub(now).Seconds(),
		}, nil
	})
}

func duration(seconds float64) time.Duration { return time.Duration(math.Round(seconds * 1e9)) }

// DismissLease takes the job's live lease away from its holder.
func (p *Path) DismissLease(ctx context.Context, arg db.DismissLeaseParams) (int64, error) {
	return ask(ctx, p, KindDismiss, arg.JobName, func(tb *Table) (int64, error) {
		row := tb.leases[arg.JobName]
		if row == nil || row.Token != arg.Token || !row.ExpiresAt.After(tb.now()) {
			return 0, nil
		}
		if tb.locks.keepsTakeover(arg.JobName) {
			return 0, errLocked
		}
		row.Holder, row.Token = arg.DismissedBy, row.Token+1
		return 1, nil
	})
}

// FreeLease ends a lease that only a wrong clock keeps alive.
func (p *Path) FreeLease(ctx context.Context, arg db.FreeLeaseParams) (int64, error) {
	return ask(ctx, p, KindFree, arg.JobName, func(tb *Table) (int64, error) {
		row, now := tb.leases[arg.JobName], tb.now()
		if row == nil || tb.locks.keepsUpdate(arg.JobName) || row.Token != arg.Token ||
			!row.RenewedAt.Equal(arg.RenewedAt) || !row.ExpiresAt.After(now) {
			return 0, nil
		}
		row.ExpiresAt = now
		return 1, nil
	})
}

// LookLeases reads the leases of the jobs in a JSON array of names.
func (p *Path) LookLeases(ctx context.Context, jobNames string) ([]db.LookLeasesRow, error) {
	var jobs []string
	if err := json.Unmarshal([]byte(jobNames), &jobs); err != nil {
		return nil, err
	}
	return send(ctx, p, KindLook, jobs, func(tb *Table) ([]db.LookLeasesRow, error) {
		return tb.read(jobs), nil
	})
}

// LookLease reads one job's lease.
func (p *Path) LookLease(ctx context.Context, jobName string) (db.LookLeaseRow, error) {
	return ask(ctx, p, KindLook, jobName, func(tb *Table) (db.LookLeaseRow, error) {
		for _, row := range tb.read([]string{jobName}) {
			return db.LookLeaseRow(row), nil
		}
		return db.LookLeaseRow{}, sql.ErrNoRows
	})
}

// ListLeases reads every lease, by job name.
func (p *Path) ListLeases(ctx context.Context) ([]db.ListLeasesRow, error) {
	return send(ctx, p, KindList, nil, func(tb *Table) ([]db.ListLeasesRow, error) {
		var rows []db.ListLeasesRow
		for _, row := range tb.read(slices.Sorted(maps.Keys(tb.leases))) {
			rows = append(rows, db.ListLeasesRow(row))
		}
		return rows, nil
	})
}

// read returns the rows of those jobs that have one. The caller holds tb.mu.
func (tb *Table) read(jobs []string) []db.LookLeasesRow {
	var rows []db.LookLeasesRow
	for _, job := range jobs {
		if row := tb.leases[job]; row != nil {
			rows = append(rows, tb.answer(row))
		}
	}
	return rows
}

// answer is the row with the time that its lease has left. The caller holds tb.mu.
func (tb *Table) answer(row *db.LeaderLease) db.LookLeasesRow {
	return db.LookLeasesRow{LeaderLease: *row, TimeLeft: row.ExpiresAt.Sub(tb.now()).Seconds()}
}

// RenewLease extends the live lease of exactly this job, holder and token.
func (p *Path) RenewLease(ctx context.Context, arg db.RenewLeaseParams) (int64, error) {
	return ask(ctx, p, KindRenewOne, arg.JobName, func(tb *Table) (int64, error) {
		renew := func(row *db.LeaderLease, now time.Time) {
			row.RenewedAt, row.ExpiresAt = now, now.Add(duration(arg.TTLSeconds))
		}
		return tb.update(arg.JobName, arg.Holder, arg.Token, renew)
	})
}

// ReleaseLease ends the live lease of exactly this job, holder and token.
func (p *Path) ReleaseLease(ctx context.Context, arg db.ReleaseLeaseParams) (int64, error) {
	return ask(ctx, p, KindRelease, arg.JobName, func(tb *Table) (int64, error) {
		end := func(row *db.LeaderLease, now time.Time) { row.ExpiresAt = now }
		return tb.update(arg.JobName, arg.Holder, arg.Token, end)
	})
}

// RenewLeases extends the live leases of many terms of one holder, unless their rows are locked.
func (p *Path) RenewLeases(
	ctx context.Context, arg db.RenewLeasesParams,
) ([]db.RenewLeasesRow, error) {
	var terms []struct {
		Job   string `json:"job_name"`
		Token int64  `json:"token"`
	}
	if err := json.Unmarshal([]byte(arg.Terms), &terms); err != nil {
		return nil, err
	}
	var jobs []string
	for _, term := range terms {
		jobs = append(jobs, term.Job)
	}
	return send(ctx, p, KindRenewMany, jobs, func(tb *Table) ([]db.RenewLeasesRow, error) {
		now := tb.now()
		var rows []db.RenewLeasesRow
		for _, term := range terms {
			if !tb.holds(term.Job, arg.Holder, term.Token) {
				continue
			}
			skipped := tb.locks.keepsUpdate(term.Job)
			if row := tb.leases[term.Job]; !skipped {
				row.RenewedAt, row.ExpiresAt = now, now.Add(duration(arg.TTLSeconds))
			}
			rows = append(rows, db.RenewLeasesRow{
				JobName: term.Job, Token: term.Token, Renewed: !skipped,
			})
		}
		return rows, nil
	})
}

// GuardLease says whether the term still has the lease. The lock that it takes ends with it, unless
// it is called in a transaction.
func (p *Path) GuardLease(ctx context.Context, arg db.GuardLeaseParams) (int64, error) {
	return ask(ctx, p, KindGuard, arg.JobName, func(tb *Table) (int64, error) {
		return tb.guarded(arg)
	})
}

// guarded is the token of GuardLease. The caller holds tb.mu.
func (tb *Table) guarded(arg db.GuardLeaseParams) (int64, error) {
	row := tb.leases[arg.JobName]
	if row == nil || row.Holder != arg.Holder || row.Token != arg.Token {
		return 0, sql.ErrNoRows
	}
	return row.Token, nil
}

// LeaseToken returns the token of the job's current or last term.
func (p *Path) LeaseToken(ctx context.Context, jobName string) (int64, error) {
	return ask(ctx, p, KindToken, jobName, func(tb *Table) (int64, error) {
		return tb.token(jobName)
	})
}

// token is the token of LeaseToken. The caller holds tb.mu.
func (tb *Table) token(job string) (int64, error) {
	row := tb.leases[job]
	if row == nil {
		return 0, sql.ErrNoRows
	}
	return row.Token, nil
}

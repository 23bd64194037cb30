package pgfake

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
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
	return sendLocked(ctx, p, KindAcquire, arg.JobName, func(tb *Table) (db.AcquireLeaseRow, error) {
		row, now := tb.leases[arg.JobName], tb.now()
		acquired := false
		switch {
		case row == nil:
			tb.begin(arg.JobName, arg.Holder)
			row = &db.LeaderLease{JobName: arg.JobName, Token: arg.KnownToken + 1, AcquiredAt: now}
			tb.leases[arg.JobName] = row
			acquired = true
		case tb.locks[arg.JobName] != nil: // SKIP LOCKED
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
	return sendLocked(ctx, p, KindDismiss, arg.JobName, func(tb *Table) (int64, error) {
		row := tb.leases[arg.JobName]
		if row == nil || row.Token != arg.Token || !row.ExpiresAt.After(tb.now()) {
			return 0, nil
		}
		row.Holder, row.Token = arg.DismissedBy, row.Token+1
		return 1, nil
	})
}

// FreeLease ends a lease that only a wrong clock keeps alive.
func (p *Path) FreeLease(ctx context.Context, arg db.FreeLeaseParams) (int64, error) {
	return sendLocked(ctx, p, KindFree, arg.JobName, func(tb *Table) (int64, error) {
		row, now := tb.leases[arg.JobName], tb.now()
		if row == nil || tb.locks[arg.JobName] != nil || row.Token != arg.Token ||
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
	return send(ctx, p, KindLook, jobs, func() ([]db.LookLeasesRow, error) {
		return p.table.read(jobs), nil
	})
}

// LookLease reads one job's lease.
func (p *Path) LookLease(ctx context.Context, jobName string) (db.LookLeaseRow, error) {
	return send(ctx, p, KindLook, []string{jobName}, func() (db.LookLeaseRow, error) {
		for _, row := range p.table.read([]string{jobName}) {
			return db.LookLeaseRow(row), nil
		}
		return db.LookLeaseRow{}, sql.ErrNoRows
	})
}

// ListLeases reads every lease, by job name.
func (p *Path) ListLeases(ctx context.Context) ([]db.ListLeasesRow, error) {
	return send(ctx, p, KindList, nil, func() ([]db.ListLeasesRow, error) {
		p.table.mu.Lock()
		jobs := slices.Sorted(maps.Keys(p.table.leases))
		p.table.mu.Unlock()
		var rows []db.ListLeasesRow
		for _, row := range p.table.read(jobs) {
			rows = append(rows, db.ListLeasesRow(row))
		}
		return rows, nil
	})
}

// read returns the rows of those jobs that have one.
func (tb *Table) read(jobs []string) []db.LookLeasesRow {
	tb.mu.Lock()
	defer tb.mu.Unlock()
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
	return send(ctx, p, KindRenewOne, []string{arg.JobName}, func() (int64, error) {
		renew := func(row *db.LeaderLease, now time.Time) {
			row.RenewedAt, row.ExpiresAt = now, now.Add(duration(arg.TTLSeconds))
		}
		return p.table.update(ctx, arg.JobName, arg.Holder, arg.Token, renew)
	})
}

// ReleaseLease ends the live lease of exactly this job, holder and token.
func (p *Path) ReleaseLease(ctx context.Context, arg db.ReleaseLeaseParams) (int64, error) {
	return send(ctx, p, KindRelease, []string{arg.JobName}, func() (int64, error) {
		end := func(row *db.LeaderLease, now time.Time) { row.ExpiresAt = now }
		return p.table.update(ctx, arg.JobName, arg.Holder, arg.Token, end)
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
	return send(ctx, p, KindRenewMany, jobs, func() ([]db.RenewLeasesRow, error) {
		tb := p.table
		tb.mu.Lock()
		defer tb.mu.Unlock()
		now := tb.now()
		var rows []db.RenewLeasesRow
		for _, term := range terms {
			if !tb.holds(term.Job, arg.Holder, term.Token) {
				continue
			}
			skipped := tb.locks[term.Job] != nil
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

// GuardLease is called on a user's transaction, never on a path.
func (*Path) GuardLease(context.Context, db.GuardLeaseParams) (int64, error) {
	return 0, errors.New("pgfake: GuardLease outside of a transaction")
}

// LeaseToken returns the token of the job's current or last term.
func (p *Path) LeaseToken(_ context.Context, jobName string) (int64, error) {
	if row := p.table.Row(jobName); row.Token > 0 {
		return row.Token, nil
	}
	return 0, sql.ErrNoRows
}

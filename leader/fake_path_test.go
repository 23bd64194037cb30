package leader

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/pgleader/pgleader/db"
)

// The kinds of statements.
const (
	acquire   = "acquire"
	look      = "look"
	list      = "list"
	renewOne  = "renew one"
	renewMany = "renew many"
	release   = "release"
	dismiss   = "dismiss"
	free      = "free"
)

// A statement is one that a process has sent.
type statement struct {
	kind string
	jobs []string
	at   time.Time
	nth  int // of its kind, from 1
}

func (s statement) renews() bool { return s.kind == renewOne || s.kind == renewMany }

// A trouble is what happens to a statement. The zero value is none.
type trouble struct {
	late     time.Duration // until the statement reaches the server
	slow     time.Duration // from there until the answer is back
	deaf     bool          // the driver does not listen to the context meanwhile
	fails    error         // the server says this, and does nothing
	loses    error         // the driver says this, after the server has done it
	hangs    bool          // the driver keeps the call whatever its context says; the server never sees the statement
	swallows bool          // the same, but the server has done it
}

var errReset = errors.New("connection reset by peer")

// A path is one process's way to the table. It implements db.Querier.
type path struct {
	db.Querier // the statements that a test of terms never asks for

	table *table

	mu      sync.Mutex
	trouble func(statement) trouble
	starved bool          // no connection comes free
	dials   time.Duration // how long a connection takes to open; one that is open goes back into the pool
	sent    []statement
	count   map[string]int // of sent, by kind
	lent    int            // connections that were not given back
	freed   chan struct{}  // closed when the calls that hang return
}

func (p *path) connect(ctx context.Context) (db.Querier, func(error), error) {
	p.mu.Lock()
	starved, dials := p.starved, p.dials
	p.mu.Unlock()
	if starved {
		<-ctx.Done()
		return nil, nil, ctx.Err()
	}
	if dials > 0 {
		select {
		case <-time.After(dials):
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dials = 0
	p.lent++
	return p, func(error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.lent--
	}, nil
}

// suffer sets what happens to the statements from now on; nil is nothing bad.
func (p *path) suffer(trouble func(statement) trouble) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trouble = trouble
}

// always is a trouble for every statement.
func always(tr trouble) func(statement) trouble { return func(statement) trouble { return tr } }

// only is a trouble for the statements of one kind.
func only(kind string, tr trouble) func(statement) trouble {
	return func(s statement) trouble {
		if s.kind == kind || kind == renewOne && s.renews() {
			return tr
		}
		return trouble{}
	}
}

// unhang makes the calls that hang return with an error.
func (p *path) unhang() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.freed)
	p.freed = make(chan struct{})
}

// kept is the number of calls that have not returned.
func (p *path) kept() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lent
}

// asked returns the statements since a moment, of the given kinds or of all.
func (p *path) asked(since time.Time, kinds ...string) []statement {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []statement
	for _, s := range p.sent {
		if !s.at.Before(since) && (len(kinds) == 0 || slices.Contains(kinds, s.kind)) {
			found = append(found, s)
		}
	}
	return found
}

// send takes a statement through the path's troubles.
func send[T any](ctx context.Context, p *path, kind string, jobs []string, carryOut func() (T, error)) (T, error) {
	p.mu.Lock()
	p.count[kind]++
	s := statement{kind: kind, jobs: jobs, at: time.Now(), nth: p.count[kind]}
	p.sent = append(p.sent, s)
	cause, freed := p.trouble, p.freed
	p.mu.Unlock()

	var none T
	var tr trouble
	if cause != nil {
		tr = cause(s)
	}
	if tr.hangs {
		<-freed
		return none, errReset
	}
	if err := tr.wait(ctx, tr.late); err != nil {
		return none, err
	}
	if tr.fails != nil {
		return none, tr.fails
	}
	value, err := carryOut()
	if tr.swallows {
		<-freed
		return none, errReset
	}
	if err := tr.wait(ctx, tr.slow); err != nil {
		return none, err
	}
	if tr.loses != nil {
		return none, tr.loses
	}
	return value, err
}

func (tr trouble) wait(ctx context.Context, d time.Duration) error {
	if tr.deaf {
		ctx = context.WithoutCancel(ctx)
	}
	if d == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *path) AcquireLease(ctx context.Context, arg db.AcquireLeaseParams) (db.AcquireLeaseRow, error) {
	return send(ctx, p, acquire, []string{arg.JobName}, func() (db.AcquireLeaseRow, error) {
		tb := p.table
		tb.mu.Lock()
		defer tb.mu.Unlock()
		row, now := tb.rows[arg.JobName], tb.now()
		acquired := false
		switch {
		case row == nil:
			tb.begin(arg.JobName, arg.Holder)
			row = &db.LeaderLease{JobName: arg.JobName, Token: arg.KnownToken + 1, AcquiredAt: now}
			tb.rows[arg.JobName] = row
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
			row.Holder, row.RenewedAt, row.ExpiresAt = arg.Holder, now, now.Add(ttlOf(arg.TTLSeconds))
		}
		answer := db.AcquireLeaseRow{
			Acquired: acquired, JobName: row.JobName, Holder: row.Holder, Token: row.Token,
			AcquiredAt: row.AcquiredAt, RenewedAt: row.RenewedAt, ExpiresAt: row.ExpiresAt, TimeLeft: row.ExpiresAt.Sub(now).Seconds(),
		}
		return answer, nil
	})
}

func (p *path) DismissLease(ctx context.Context, arg db.DismissLeaseParams) (db.DismissLeaseRow, error) {
	return sendLocked(ctx, p, dismiss, arg.JobName, func(tb *table) (db.DismissLeaseRow, error) {
		row := tb.rows[arg.JobName]
		if row == nil || !row.ExpiresAt.After(tb.now()) {
			return db.DismissLeaseRow{}, sql.ErrNoRows
		}
		old := db.DismissLeaseRow{
			JobName: row.JobName, Holder: row.Holder, Token: row.Token, AcquiredAt: row.AcquiredAt,
			RenewedAt: row.RenewedAt, ExpiresAt: row.ExpiresAt, TimeLeft: row.ExpiresAt.Sub(tb.now()).Seconds(),
		}
		row.Holder, row.Token = arg.DismissedBy, row.Token+1
		return old, nil
	})
}

func (p *path) FreeLease(ctx context.Context, arg db.FreeLeaseParams) (int64, error) {
	return send(ctx, p, free, []string{arg.JobName}, func() (int64, error) {
		tb := p.table
		tb.mu.Lock()
		defer tb.mu.Unlock()
		row, now := tb.rows[arg.JobName], tb.now()
		if row == nil || tb.locks[arg.JobName] != nil || row.Token != arg.Token || !row.RenewedAt.Equal(arg.RenewedAt) || !row.ExpiresAt.After(now) {
			return 0, nil
		}
		row.ExpiresAt = now
		return 1, nil
	})
}

func ttlOf(seconds float64) time.Duration { return time.Duration(math.Round(seconds * 1e9)) }

func (p *path) LookLeases(ctx context.Context, jobNames string) ([]db.LookLeasesRow, error) {
	var jobs []string
	if err := json.Unmarshal([]byte(jobNames), &jobs); err != nil {
		return nil, err
	}
	return send(ctx, p, look, jobs, func() ([]db.LookLeasesRow, error) { return p.table.read(jobs), nil })
}

func (p *path) LookLease(ctx context.Context, job string) (db.LookLeaseRow, error) {
	return send(ctx, p, look, []string{job}, func() (db.LookLeaseRow, error) {
		for _, row := range p.table.read([]string{job}) {
			return db.LookLeaseRow(row), nil
		}
		return db.LookLeaseRow{}, sql.ErrNoRows
	})
}

func (p *path) ListLeases(ctx context.Context) ([]db.ListLeasesRow, error) {
	return send(ctx, p, list, nil, func() ([]db.ListLeasesRow, error) {
		p.table.mu.Lock()
		jobs := slices.Sorted(maps.Keys(p.table.rows))
		p.table.mu.Unlock()
		var rows []db.ListLeasesRow
		for _, row := range p.table.read(jobs) {
			rows = append(rows, db.ListLeasesRow(row))
		}
		return rows, nil
	})
}

func (p *path) RenewLease(ctx context.Context, arg db.RenewLeaseParams) (int64, error) {
	return send(ctx, p, renewOne, []string{arg.JobName}, func() (int64, error) {
		return p.table.update(ctx, arg.JobName, arg.Holder, arg.Token, func(row *db.LeaderLease, now time.Time) {
			row.RenewedAt, row.ExpiresAt = now, now.Add(ttlOf(arg.TTLSeconds))
		})
	})
}

func (p *path) ReleaseLease(ctx context.Context, arg db.ReleaseLeaseParams) (int64, error) {
	return send(ctx, p, release, []string{arg.JobName}, func() (int64, error) {
		return p.table.update(ctx, arg.JobName, arg.Holder, arg.Token, func(row *db.LeaderLease, now time.Time) { row.ExpiresAt = now })
	})
}

func (p *path) RenewLeases(ctx context.Context, arg db.RenewLeasesParams) ([]db.RenewLeasesRow, error) {
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
	return send(ctx, p, renewMany, jobs, func() ([]db.RenewLeasesRow, error) {
		tb := p.table
		tb.mu.Lock()
		defer tb.mu.Unlock()
		now := tb.now()
		var rows []db.RenewLeasesRow
		for _, term := range terms {
			row := tb.rows[term.Job]
			if row == nil || row.Holder != arg.Holder || row.Token != term.Token || !row.ExpiresAt.After(now) {
				continue
			}
			skipped := tb.locks[term.Job] != nil
			if !skipped {
				row.RenewedAt, row.ExpiresAt = now, now.Add(ttlOf(arg.TTLSeconds))
			}
			rows = append(rows, db.RenewLeasesRow{JobName: term.Job, Token: term.Token, Renewed: !skipped})
		}
		return rows, nil
	})
}

// GuardLease and LeaseToken are called on a user's transaction, never on a path.
func (p *path) GuardLease(context.Context, db.GuardLeaseParams) (int64, error) {
	return 0, errors.New("guard outside of a transaction")
}

func (p *path) LeaseToken(_ context.Context, job string) (int64, error) {
	if row := p.table.row(job); row.Token > 0 {
		return row.Token, nil
	}
	return 0, sql.ErrNoRows
}

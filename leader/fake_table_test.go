package leader

import (
	"context"
	"sync"
	"time"

	"github.com/pgleader/pgleader/db"
)

// A table is the lease table in memory, with the rules of queries/lease.sql. Its clock is the time of the test's bubble.
type table struct {
	mu       sync.Mutex
	rows     map[string]*db.LeaderLease
	slots    map[slotKey]*db.LeaderSlot
	locks    map[string]chan struct{} // rows that somebody has locked; closed when the lock goes
	ahead    time.Duration            // of the database's clock to the monotonic one: how long all machines were suspended, or a step
	takeover func(job, holder string) // called before a process begins a new term
}

func newTable() *table {
	return &table{rows: make(map[string]*db.LeaderLease), slots: make(map[slotKey]*db.LeaderSlot), locks: make(map[string]chan struct{})}
}

// now is the table's time. The caller holds tb.mu.
func (tb *table) now() time.Time { return time.Now().Add(tb.ahead).Round(0) }

// clock is now for whoever does not hold tb.mu.
func (tb *table) clock() time.Time {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	return tb.now()
}

// put makes another process, one outside of the test, the job's leader by a new term.
func (tb *table) put(job, holder string, ttl time.Duration) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	row := tb.rows[job]
	if row == nil {
		row = &db.LeaderLease{JobName: job}
		tb.rows[job] = row
	}
	now := tb.now()
	row.Holder, row.Token, row.AcquiredAt, row.RenewedAt, row.ExpiresAt = holder, row.Token+1, now, now, now.Add(ttl)
}

// step sets the table's clock.
func (tb *table) step(d time.Duration) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.ahead += d
}

func (tb *table) free(job string) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.rows[job].ExpiresAt = tb.now()
}

func (tb *table) row(job string) db.LeaderLease {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	if row := tb.rows[job]; row != nil {
		return *row
	}
	return db.LeaderLease{}
}

// live reports whether somebody holds the job's lease.
func (tb *table) live(job string) bool {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	row := tb.rows[job]
	return row != nil && row.ExpiresAt.After(tb.now())
}

// lock locks the row, as an open transaction does.
func (tb *table) lock(job string) (unlock func()) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	gone := make(chan struct{})
	tb.locks[job] = gone
	return func() {
		tb.mu.Lock()
		defer tb.mu.Unlock()
		delete(tb.locks, job)
		close(gone)
	}
}

func (tb *table) begin(job, holder string) {
	if tb.takeover != nil {
		tb.takeover(job, holder)
	}
}

func (tb *table) read(jobs []string) []db.LookLeasesRow {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	var rows []db.LookLeasesRow
	for _, job := range jobs {
		if row := tb.rows[job]; row != nil {
			rows = append(rows, db.LookLeasesRow{
				JobName: row.JobName, Holder: row.Holder, Token: row.Token, AcquiredAt: row.AcquiredAt,
				RenewedAt: row.RenewedAt, ExpiresAt: row.ExpiresAt, TimeLeft: row.ExpiresAt.Sub(tb.now()).Seconds(),
			})
		}
	}
	return rows
}

// update changes the live lease of exactly this job, holder and token, when nobody has its row locked any more.
func (tb *table) update(ctx context.Context, job, holder string, token int64, change func(*db.LeaderLease, time.Time)) (int64, error) {
	for {
		tb.mu.Lock()
		gone := tb.locks[job]
		if gone == nil {
			defer tb.mu.Unlock()
			now := tb.now()
			row := tb.rows[job]
			if row == nil || row.Holder != holder || row.Token != token || !row.ExpiresAt.After(now) {
				return 0, nil
			}
			change(row, now)
			return 1, nil
		}
		tb.mu.Unlock()
		select {
		case <-gone:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// Package pgfake is the database of pgleader in memory, for tests that run in a testing/synctest
// bubble.
//
// A Table holds the rows and follows the rules of queries/lease.sql and queries/slot.sql, by the
// bubble's clock. Each process of a test reaches it by a Path of its own, which is a db.Querier. On
// a path the test decides what happens to each statement: it comes late, fails, or loses its answer.
//
// The table is compared with the one in Postgres by a test that asks both the same at random.
package pgfake

import (
	"context"
	"sync"
	"time"

	"github.com/pgleader/pgleader/db"
)

// A Table is the lease and slot tables of one database. Its clock is the time of the test's bubble,
// plus whatever Step has added.
type Table struct {
	mu       sync.Mutex
	leases   map[string]*db.LeaderLease
	slots    map[slotKey]*db.LeaderSlot
	locks    map[string]chan struct{} // lease rows that somebody has locked; closed when the lock goes
	ahead    time.Duration            // of the database's clock to the monotonic one
	takeover func(job, holder string)
}

// NewTable returns a table without rows.
func NewTable() *Table {
	return &Table{
		leases: make(map[string]*db.LeaderLease),
		slots:  make(map[slotKey]*db.LeaderSlot),
		locks:  make(map[string]chan struct{}),
	}
}

// now is the table's time. The caller holds tb.mu.
func (tb *Table) now() time.Time { return time.Now().Add(tb.ahead).Round(0) }

// Clock returns the database's time.
func (tb *Table) Clock() time.Time {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	return tb.now()
}

// Step sets the database's clock on by d, or back. A machine that was suspended for d looks the
// same to its processes: their monotonic clock has stood still.
func (tb *Table) Step(d time.Duration) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.ahead += d
}

// OnTakeover has f called before a process begins a new term. f must not call the table.
func (tb *Table) OnTakeover(f func(job, holder string)) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.takeover = f
}

// begin calls the hook of OnTakeover. The caller holds tb.mu.
func (tb *Table) begin(job, holder string) {
	if tb.takeover != nil {
		tb.takeover(job, holder)
	}
}

// Put makes a process outside of the test the job's leader, by a new term.
func (tb *Table) Put(job, holder string, ttl time.Duration) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	row := tb.leases[job]
	if row == nil {
		row = &db.LeaderLease{JobName: job}
		tb.leases[job] = row
	}
	now := tb.now()
	row.Holder, row.Token = holder, row.Token+1
	row.AcquiredAt, row.RenewedAt, row.ExpiresAt = now, now, now.Add(ttl)
}

// Free ends the job's lease now, as a release does. A job without a row has none.
func (tb *Table) Free(job string) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	if row := tb.leases[job]; row != nil {
		row.ExpiresAt = tb.now()
	}
}

// Delete deletes the job's lease row, which no statement of pgleader's does.
func (tb *Table) Delete(job string) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	delete(tb.leases, job)
}

// Row returns the job's lease row, or the zero value if there is none.
func (tb *Table) Row(job string) db.LeaderLease {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	if row := tb.leases[job]; row != nil {
		return *row
	}
	return db.LeaderLease{}
}

// Live reports whether somebody holds the job's lease.
func (tb *Table) Live(job string) bool {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	row := tb.leases[job]
	return row != nil && row.ExpiresAt.After(tb.now())
}

// Lock locks the job's lease row until unlock is called, as a transaction in psql does that has
// updated the row.
func (tb *Table) Lock(job string) (unlock func()) {
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

// holds reports whether the term holds its lease. The caller holds tb.mu.
func (tb *Table) holds(job, holder string, token int64) bool {
	row := tb.leases[job]
	return row != nil && row.Holder == holder && row.Token == token && row.ExpiresAt.After(tb.now())
}

// update changes the live lease of exactly this job, holder and token, when nobody has its row
// locked any more.
func (tb *Table) update(
	ctx context.Context, job, holder string, token int64, change func(*db.LeaderLease, time.Time),
) (int64, error) {
	for {
		tb.mu.Lock()
		gone := tb.locks[job]
		if gone == nil {
			defer tb.mu.Unlock()
			if !tb.holds(job, holder, token) {
				return 0, nil
			}
			change(tb.leases[job], tb.now())
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

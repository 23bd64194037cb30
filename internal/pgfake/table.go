// Package pgfake is the database of pgleader in memory, for tests that run in a testing/synctest
// bubble.
//
// A Table holds the rows and follows the rules of queries/lease.sql and queries/slot.sql, by the
// bubble's clock. Each process of a test reaches it by a Path of its own: as a db.Querier, or by
// the pool that Path.OpenDB returns. On a path the test decides what happens to each statement: it
// comes late, fails, loses its answer, or arrives a second time.
//
// Tests compare the table with the one in Postgres: they ask both the same at random, and see what
// waits for an open transaction. These limits are known:
//
//   - A statement is carried out in one instant, at the end of whatever it waits for. It has locked
//     nothing meanwhile, and it sees all that has changed. In Postgres it sees most rows as they
//     were when it began.
//   - In a transaction there are GuardLease, LeaseToken, FinishSlot, ReadSlot and Write, under READ
//     COMMITTED. Two transactions that wait for each other wait for the end of a context.
//   - Statements of a transaction are not left hanging beyond the context of its BeginTx, and must
//     not hang while another goroutine ends it: database/sql waits for them on a mutex, which stops
//     the bubble's clock.
//   - Every error but the server's ends its connection, as pgx has it.
//   - The clock shows nanoseconds. Slots are cut to microseconds.
package pgfake

import (
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
	locks    locks
	ahead    time.Duration // of the database's clock to the monotonic one
	takeover func(job, holder string)
}

// NewTable returns a table without rows.
func NewTable() *Table {
	return &Table{
		leases: make(map[string]*db.LeaderLease),
		slots:  make(map[slotKey]*db.LeaderSlot),
		locks:  newLocks(),
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

// holds reports whether the term holds its lease. The caller holds tb.mu.
func (tb *Table) holds(job, holder string, token int64) bool {
	row := tb.leases[job]
	return row != nil && row.Holder == holder && row.Token == token && row.ExpiresAt.After(tb.now())
}

package pgfake

import (
	"context"
	"errors"
	"time"

	"github.com/pgleader/pgleader/db"
)

// locks are the rows that somebody has locked for longer than one statement. They are under the
// table's mutex.
type locks struct {
	leases   map[string]int       // how many have updated the row
	guards   map[string]int       // how many hold off its takeover (FOR KEY SHARE)
	slots    map[slotKey]struct{} // updated by one
	released chan struct{}        // closed and replaced when a lock goes
}

func newLocks() locks {
	return locks{
		leases:   make(map[string]int),
		guards:   make(map[string]int),
		slots:    make(map[slotKey]struct{}),
		released: make(chan struct{}),
	}
}

// Lock locks the job's lease row until unlock is called, as a transaction in psql does that has
// updated the row: renewals and dismissals wait, and a claim counts the lease as not free.
func (tb *Table) Lock(job string) (unlock func()) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.locks.leases[job]++
	return func() {
		tb.mu.Lock()
		defer tb.mu.Unlock()
		tb.locks.leases[job]--
		tb.locks.release()
	}
}

// LockSlot locks a slot's row until unlock is called, as a transaction in psql does that has
// updated the row. It waits for whoever has locked the row before.
func (tb *Table) LockSlot(job string, slot time.Time) (unlock func()) {
	key := keyOf(job, slot)
	unlock, _ = carryOut(context.Background(), tb, func() (func(), error) {
		if tb.locks.keepsSlot(key) {
			return nil, errLocked
		}
		tb.locks.slots[key] = struct{}{}
		return func() {
			tb.mu.Lock()
			defer tb.mu.Unlock()
			delete(tb.locks.slots, key)
			tb.locks.release()
		}, nil
	})
	return unlock
}

// release wakes those who wait for a lock that is gone.
func (l *locks) release() {
	close(l.released)
	l.released = make(chan struct{})
}

// keepsUpdate reports whether an update of the lease that leaves its key alone has to wait.
func (l *locks) keepsUpdate(job string) bool { return l.leases[job] > 0 }

// keepsTakeover reports whether a change of the lease's token has to wait.
func (l *locks) keepsTakeover(job string) bool { return l.leases[job] > 0 || l.guards[job] > 0 }

// keepsSlot reports whether a change of the slot has to wait.
func (l *locks) keepsSlot(key slotKey) bool {
	_, locked := l.slots[key]
	return locked
}

// errLocked says that a statement has to wait for a row, and has changed nothing.
var errLocked = errors.New("pgfake: row is locked")

// carryOut calls f under the table's mutex, and again after each lock that goes, until f says
// something else than errLocked or ctx ends.
func carryOut[T any](ctx context.Context, tb *Table, f func() (T, error)) (T, error) {
	var released chan struct{}
	try := func() (T, error) {
		tb.mu.Lock()
		defer tb.mu.Unlock()
		released = tb.locks.released
		return f()
	}
	for {
		value, err := try()
		if !errors.Is(err, errLocked) {
			return value, err
		}
		select {
		case <-released:
		case <-ctx.Done():
			return value, ctx.Err()
		}
	}
}

// update changes the live lease of exactly this job, holder and token, once its row is not locked.
func (tb *Table) update(
	job, holder string, token int64, change func(row *db.LeaderLease, now time.Time),
) (int64, error) {
	switch {
	case !tb.holds(job, holder, token):
		return 0, nil
	case tb.locks.keepsUpdate(job):
		return 0, errLocked
	}
	change(tb.leases[job], tb.now())
	return 1, nil
}

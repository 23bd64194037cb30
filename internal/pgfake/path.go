package pgfake

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pgleader/pgleader/db"
)

// A Path is one process's way to the table. It implements db.Querier.
type Path struct {
	table *Table

	mu      sync.Mutex
	trouble func(Statement) Trouble
	starved bool          // no connection comes free
	dials   time.Duration // how long the next connection takes to open
	sent    []Statement
	count   map[Kind]int  // of sent
	lent    int           // connections that were not given back
	freed   chan struct{} // closed when the calls that hang return
}

var _ db.Querier = (*Path)(nil)

// NewPath returns a process's way to the table, on which nothing bad happens.
func NewPath(table *Table) *Path {
	return &Path{table: table, count: make(map[Kind]int), freed: make(chan struct{})}
}

// Connect lends the queries on one connection, which the caller gives back with the error of its
// last call.
func (p *Path) Connect(ctx context.Context) (db.Querier, func(error), error) {
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

// Starve makes Connect wait for its context's end from now on, as a pool does from which no
// connection comes free.
func (p *Path) Starve() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starved = true
}

// DialSlowly makes connections take d to open, until one is open: that one is used again.
func (p *Path) DialSlowly(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dials = d
}

// Suffer sets what happens to the statements from now on. nil is nothing bad.
func (p *Path) Suffer(trouble func(Statement) Trouble) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trouble = trouble
}

// Unhang makes the calls that hang return with ErrReset.
func (p *Path) Unhang() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.freed)
	p.freed = make(chan struct{})
}

// Kept returns how many connections were lent and not given back.
func (p *Path) Kept() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lent
}

// Asked returns the statements since a moment, of the given kinds or of all.
func (p *Path) Asked(since time.Time, kinds ...Kind) []Statement {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []Statement
	for _, s := range p.sent {
		if !s.At.Before(since) && (len(kinds) == 0 || slices.Contains(kinds, s.Kind)) {
			found = append(found, s)
		}
	}
	return found
}

// send takes a statement through the path's troubles.
func send[T any](
	ctx context.Context, p *Path, kind Kind, jobs []string, carryOut func() (T, error),
) (T, error) {
	p.mu.Lock()
	p.count[kind]++
	s := Statement{Kind: kind, Jobs: jobs, At: time.Now(), Nth: p.count[kind]}
	p.sent = append(p.sent, s)
	cause, freed := p.trouble, p.freed
	p.mu.Unlock()

	var none T
	var tr Trouble
	if cause != nil {
		tr = cause(s)
	}
	if tr.Hangs {
		<-freed
		return none, ErrReset
	}
	if err := tr.wait(ctx, tr.Late); err != nil {
		return none, err
	}
	if tr.Fails != nil {
		return none, tr.Fails
	}
	value, err := carryOut()
	if tr.Swallows {
		<-freed
		return none, ErrReset
	}
	if err := tr.wait(ctx, tr.Slow); err != nil {
		return none, err
	}
	if tr.Loses != nil {
		return none, tr.Loses
	}
	return value, err
}

// sendLocked is send for a statement that is carried out under the table's mutex.
func sendLocked[T any](
	ctx context.Context, p *Path, kind Kind, job string, carryOut func(*Table) (T, error),
) (T, error) {
	return send(ctx, p, kind, []string{job}, func() (T, error) {
		p.table.mu.Lock()
		defer p.table.mu.Unlock()
		return carryOut(p.table)
	})
}

package pgfake

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pgleader/pgleader/db"
)

// A Path is one process's way to the table. It implements db.Querier.
type Path struct {
	db.Querier // nil: whoever adds a query need not fake it, unless a test asks it here
	table      *Table

	mu      sync.Mutex
	trouble func(Statement) Trouble
	starved bool          // no connection comes free
	dials   time.Duration // how long the next connection takes to open
	sent    []Statement
	count   map[Kind]int  // of sent
	kept    int           // connections and calls, see Kept
	freed   chan struct{} // closed when the calls that hang return

	era  int // counts what Disconnect has ended
	open map[*transaction]struct{}

	underway int           // statements that are to be delivered again
	arrived  chan struct{} // closed and replaced when there are none any more
}

var _ db.Querier = (*Path)(nil)

// NewPath returns a process's way to the table, on which nothing bad happens.
func NewPath(table *Table) *Path {
	return &Path{
		table:   table,
		count:   make(map[Kind]int),
		freed:   make(chan struct{}),
		open:    make(map[*transaction]struct{}),
		arrived: make(chan struct{}),
	}
}

// Connect lends the queries on one connection, which the caller gives back with the error of its
// last call.
func (p *Path) Connect(ctx context.Context) (db.Querier, func(error), error) {
	if err := p.dial(ctx); err != nil {
		return nil, nil, err
	}
	p.keep(1)
	return p, func(error) { p.keep(-1) }, nil
}

// dial opens a connection.
func (p *Path) dial(ctx context.Context) error {
	p.mu.Lock()
	starved, dials := p.starved, p.dials
	p.mu.Unlock()
	if starved {
		<-ctx.Done()
		return ctx.Err()
	}
	if dials > 0 {
		select {
		case <-time.After(dials):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dials = 0
	return nil
}

// keep counts a connection that is lent, or one of OpenDB's that is used, and its return.
func (p *Path) keep(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept += n
}

// Kept returns how many connections of Connect's were not given back, and how many calls on
// connections of OpenDB's have not returned.
func (p *Path) Kept() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kept
}

// Starve lets no connection come free from now on: whoever asks for one waits for the end of its
// context.
func (p *Path) Starve() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starved = true
}

func (p *Path) isStarved() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.starved
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

// Disconnect has the server find that the process's connections are gone: it rolls their open
// transactions back, and what the process does on them fails. Those of Connect's are not concerned.
func (p *Path) Disconnect() {
	p.mu.Lock()
	p.era++
	open := slices.Collect(maps.Keys(p.open))
	p.mu.Unlock()
	for _, tx := range open {
		tx.abort()
	}
}

func (p *Path) currentEra() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.era
}

// opened notes a transaction, for Disconnect.
func (p *Path) opened(tx *transaction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[tx] = struct{}{}
}

// closed forgets a transaction.
func (p *Path) closed(tx *transaction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, tx)
}

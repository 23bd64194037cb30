package leader

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Elector takes part in elections on behalf of one process: one is enough, for any number of jobs. It starts goroutines only
// while it holds terms or waits for some, and needs no closing. All methods may be called from several goroutines.
type Elector struct {
	timing
	holder  string
	log     *slog.Logger
	onEvent func(Event)
	connect connector
	gate    *gate
	wall    func() time.Time // the wall clock, which a suspended machine leaves behind the monotonic one; replaced in tests

	mu       sync.Mutex
	seats    map[string]*seat
	terms    map[*Term]struct{} // the live ones
	renewing bool               // whether renewLoop runs; it does while there are live terms
	renewAt  time.Time          // when renewLoop renews next
	watching bool               // whether watchdog is set; it is while there are live terms
	watchdog *time.Timer

	waiters map[*waiter]struct{}
	woken   uint64 // how often Wake was called
	looking bool   // whether lookLoop runs; it does while there are waiters

	renewNudge chan struct{} // capacity 1: the live terms changed
	lookNudge  chan struct{} // capacity 1: the waiters changed
	lookNow    chan struct{} // capacity 1: somebody called Wake
}

// A seat is one job's place in this process: at most one call claims the job, or one live term has it, at any time.
type seat struct {
	busy    bool          // somebody claims, or Run's work has not returned
	working bool          // Run's work has not returned
	term    *Term         // the live term, or nil
	known   int64         // the token of the last term here; a live lease of ours up to it belongs to a term given up
	skipped int64         // the token of another's term for which TryAcquire was last skipped
	changed chan struct{} // closed and replaced when busy or term changes

	still     standstill
	heldUntil time.Time // until when another process has the lease, if it does not renew it nor resign
}

// New returns an elector on db, which the caller keeps and closes. It does not connect. It refuses with ErrConfig a nil db, a holder name that
// cannot be stored, and durations by which a leader could lose its lease although every renewal succeeds in time.
func New(db *sql.DB, cfg Config) (*Elector, error) {
	if db == nil {
		return nil, fmt.Errorf("%w: db is nil, want an open *sql.DB", ErrConfig)
	}
	return newElector(connectorOf(db), cfg)
}

func newElector(connect connector, cfg Config) (*Elector, error) {
	t, err := cfg.timing()
	if err != nil {
		return nil, err
	}
	holder, err := cfg.holder()
	if err != nil {
		return nil, err
	}
	log := cfg.Logger
	if log == nil {
		log = slog.Default()
	}
	return &Elector{
		timing:     t,
		holder:     holder,
		log:        log,
		onEvent:    cfg.OnEvent,
		connect:    connect,
		gate:       newGate(t.retryEvery),
		wall:       func() time.Time { return time.Now().Round(0) },
		seats:      make(map[string]*seat),
		terms:      make(map[*Term]struct{}),
		waiters:    make(map[*waiter]struct{}),
		renewNudge: make(chan struct{}, 1),
		lookNudge:  make(chan struct{}, 1),
		lookNow:    make(chan struct{}, 1),
	}, nil
}

// Holder returns what this elector writes into the lease rows: Config.Holder, or host:pid, and a random part.
func (e *Elector) Holder() string { return e.holder }

// TryAcquire asks once for the job's lease and reports whether this process leads the job. Not to lead it is not an
// error; the event Skipped says who does, or names this elector, without a token, while Run's work of a lost term has not
// returned. If this elector leads the job already, it returns that same live term without asking the database, so a program may
// simply call it on every tick.
//
// The term lives until it is lost or resigned; ctx bounds only the attempt. An attempt whose answer gets lost is made again, up to
// three times of TTL/3 each: give it a ctx with a deadline where that is too long. It returns ErrJobName, ErrNotMigrated,
// ErrReadOnly, or the database's error.
func (e *Elector) TryAcquire(ctx context.Context, job string) (*Term, bool, error) {
	if err := CheckJob(job); err != nil {
		return nil, false, err
	}
	s, term, err := e.take(ctx, job, false)
	if err != nil {
		return nil, false, fmt.Errorf("leader: acquire %q: %w", job, err)
	}
	if term != nil {
		return term, true, nil
	}
	if s == nil { // Run's work has not returned yet from a lost term
		e.emit(Event{Kind: Skipped, Job: job, Holder: e.holder})
		return nil, false, nil
	}
	defer e.leave(s) // also if the user's OnEvent panics
	if held, ok := e.stillHeld(ctx, s, job); ok {
		e.skip(s, held, job)
		return nil, false, nil
	}
	term, lease, err := e.claim(ctx, s, job)
	if err != nil {
		return nil, false, fmt.Errorf("leader: acquire %q: %w", job, err)
	}
	if term == nil {
		e.skip(s, lease, job)
		return nil, false, nil
	}
	return term, true, nil
}

// stillHeld looks at a lease that another process had a moment ago, and should have still: a program that asks on every tick is told so by a
// plain read, which costs the server a good deal less than a claim. Whatever else it sees is left to the claim.
func (e *Elector) stillHeld(ctx context.Context, s *seat, job string) (Lease, bool) {
	e.mu.Lock()
	until := s.heldUntil
	e.mu.Unlock()
	if !time.Now().Before(until) {
		return Lease{}, false
	}
	asked := time.Now()
	held, err := e.lookAt(ctx, []string{job})
	lease := held[job]
	return lease, err == nil && lease.Live() && lease.Holder != e.holder && !e.standsStill(s, lease, asked)
}

// skip reports that another holder leads, loudly once for each of its terms: a program that asks on every tick would fill its log.
func (e *Elector) skip(s *seat, held Lease, job string) {
	e.mu.Lock()
	again := s.skipped == held.Token
	s.skipped = held.Token
	s.heldUntil = time.Now().Add(held.Left)
	e.mu.Unlock()
	e.emit(Event{Kind: Skipped, Job: job, Holder: held.Holder, Token: held.Token, again: again})
}

// Campaign waits until this process leads the job, and returns the new term. It returns earlier when ctx ends, with its error, and
// on ErrJobName, ErrNotMigrated and missing rights; it waits out every other failure of the database.
//
// The term lives until it is lost or resigned; ctx bounds only the campaign. A term is returned to one caller alone: while another
// caller in this process leads the job, Campaign waits for the end of that term too.
func (e *Elector) Campaign(ctx context.Context, job string) (*Term, error) {
	s, term, err := e.campaign(ctx, job, nil)
	if err != nil {
		return nil, err
	}
	e.leave(s)
	return term, nil
}

// take waits until nobody claims the job in this process and takes its seat. With exclusive it also waits for the end of a live
// term and of Run's work; otherwise it returns the live term in place of the seat, or neither while Run's work goes on.
func (e *Elector) take(ctx context.Context, job string, exclusive bool) (*seat, *Term, error) {
	for {
		e.mu.Lock()
		s := e.seats[job]
		if s == nil {
			s = &seat{changed: make(chan struct{})}
			e.seats[job] = s
		}
		term, working, changed := s.term, s.working, s.changed
		free := term == nil && !s.busy
		if free {
			s.busy = true
		}
		e.mu.Unlock()

		switch {
		case free:
			return s, nil, nil
		case term != nil && e.expired(term):
			e.end(term, errTrustEnded)
			continue
		case !exclusive && (term != nil || working):
			return nil, term, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// leave gives up what take took. A live term keeps the seat occupied.
func (e *Elector) leave(s *seat) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s.busy, s.working = false, false
	s.notify()
}

func (s *seat) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

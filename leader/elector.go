package leader

import (
	"database/sql"
	"fmt"
	"time"

	"github.com/pgleader/pgleader/internal/pgcall"
)

// Elector takes part in elections on behalf of one process: one is enough, for any number of jobs.
// It starts goroutines only while it holds terms or waits for some, and needs no closing. All
// methods may be called from several goroutines.
type Elector struct {
	*core // who it is, its durations, its calls to the database, its events
	cfg   Config
	db    *sql.DB

	// What a process has: each part owns its state, and stands on those above it.
	watchdog    *watchdog    // the live terms, each ended when its trust is over
	seats       *seats       // one a job: two calls of a process never claim or lead the same
	renewal     *renewal     // renews the live terms
	standstills *standstills // leases that only a wrong clock keeps alive
	lookout     *lookout     // looks at the leases that calls wait for

	// What it does with them, a file each: Run and TryRun serve a term, Campaign and TryAcquire claim
	// one, Observe, Leases and Dismiss are about the terms of others.
}

// New returns an elector on db, which the caller keeps and closes. It does not connect. It refuses
// with ErrConfig a nil db, a holder name that cannot be stored, and durations by which a leader
// could lose its lease although every renewal succeeds in time.
func New(db *sql.DB, cfg Config) (*Elector, error) {
	if db == nil {
		return nil, fmt.Errorf("%w: db is nil, want an open *sql.DB", ErrConfig)
	}
	e, err := newElector(pgcall.ConnectorOf(db), cfg)
	if err != nil {
		return nil, err
	}
	e.db = db
	return e, nil
}

func newElector(connect pgcall.Connector, cfg Config) (*Elector, error) {
	cfg = cfg.withDefaults()
	t, err := cfg.timing()
	if err != nil {
		return nil, err
	}
	holder, err := cfg.identity()
	if err != nil {
		return nil, err
	}
	c := &core{
		timing:  t,
		holder:  holder,
		calls:   pgcall.New(connect, t.callLimit, t.retryPause, t.retryEvery),
		log:     cfg.Logger,
		onEvent: cfg.OnEvent,
		wall:    func() time.Time { return time.Now().Round(0) },
	}
	e := &Elector{core: c, cfg: cfg}
	e.watchdog = newWatchdog(c)
	e.seats = newSeats()
	e.renewal = newRenewal(c, e.watchdog)
	e.standstills = newStandstills(c.ttl)
	e.lookout = newLookout(c, e.standstills)
	return e, nil
}

// Holder returns what this elector writes into the lease rows: Config.Holder and a random part.
func (e *Elector) Holder() string { return e.holder }

// Config returns the configuration, with its defaults filled in.
func (e *Elector) Config() Config { return e.cfg }

// DB returns the database that New was given.
func (e *Elector) DB() *sql.DB { return e.db }

// Wake makes this elector's candidates for the job look at its lease now, instead of at their next
// turn; "" means every job. It is for a notification that the lease is free, and only a hint: all
// is right without it. It never blocks.
func (e *Elector) Wake(job string) { e.lookout.wake(job) }

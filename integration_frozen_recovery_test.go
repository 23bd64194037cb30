package pgleader_test

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/lib/pq"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

// A dialer opens a pool's connections, and counts them.
type dialer struct {
	net.Dialer
	dialled   atomic.Int64
	readLimit time.Duration // how long a read may take, if not 0
}

func (d *dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	d.dialled.Add(1)
	conn, err := d.Dialer.DialContext(ctx, network, address)
	if err != nil || d.readLimit == 0 {
		return conn, err
	}
	return impatient{conn, d.readLimit}, nil
}

// DialTimeout is for lib/pq, which asks for it but does not call it.
func (d *dialer) DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return d.DialContext(ctx, network, address)
}

// impatient is a connection on which the server has to answer in time.
type impatient struct {
	net.Conn
	limit time.Duration
}

func (c impatient) Read(b []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.limit)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

func (d *dialer) open(t *testing.T, driver, url string) *sql.DB {
	t.Helper()
	var pool *sql.DB
	switch driver {
	case "postgres":
		connector, err := pq.NewConnector(url)
		if err != nil {
			t.Fatal(err)
		}
		connector.Dialer(d)
		pool = sql.OpenDB(connector)
	case "pgx":
		config, err := pgx.ParseConfig(url)
		if err != nil {
			t.Fatal(err)
		}
		config.DialFunc = d.DialContext
		pool = sql.OpenDB(stdlib.GetConnector(*config))
	}
	t.Cleanup(func() { pool.Close() })
	return pool
}

// fill opens the connections of a pool, up to its size.
func fill(t *testing.T, pool *sql.DB, size int) {
	t.Helper()
	pool.SetMaxOpenConns(size)
	pool.SetMaxIdleConns(size)
	for range size {
		conn, err := pool.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
}

// maxHanging is how many connections one job may cost that a driver keeps beyond their time: those of a term's last
// renewals and of its release, and those of its candidate.
const maxHanging = 15

func TestLeaderCampaignsAgainWhenThePathIsBack(t *testing.T) {
	t.Parallel()
	ways := []struct {
		name string
		back func(*pgtest.Proxy)
		dead bool
	}{
		{"held bytes arrive", (*pgtest.Proxy).Thaw, false},
		{"old connections stay dead", func(p *pgtest.Proxy) { p.FreezeOpen(); p.Thaw() }, true},
	}
	withEachDriver(t, func(t *testing.T, driver, url string) {
		j := keepJournal(t, url)
		together(t, len(ways), func(i int) string { return ways[i].name }, func(t *testing.T, i int) {
			job := ways[i].name
			proxy := pgtest.NewProxy(t, url)
			pool := pgtest.Open(t, driver, proxy.URL)
			terms := running(t, electorOn(t, pool, frozenConfig), job)
			first := follow(within(t, frozenLimit, terms, "election of A"))
			successor := campaigning(t, frozenElector(t, driver, url), job)

			proxy.Freeze()
			tenures := []tenure{within(t, frozenLimit, first, "end of A's term")}
			next := within(t, frozenLimit, successor, "election of B")
			second := follow(next)
			<-time.After(frozenTTL) // A goes on trying
			hanging, connections := pool.Stats().InUse, proxy.Connections()
			if hanging > maxHanging {
				t.Errorf("%d calls hang in the driver, want at most %d", hanging, maxHanging)
			}
			if connections > 2*maxHanging { // lib/pq opens another one to cancel a query, and hangs there too
				t.Errorf("%d connections are open, want at most %d", connections, 2*maxHanging)
			}
			t.Logf("%d calls hang in the driver, %d connections are open", hanging, connections)

			ways[i].back(proxy)
			_ = next.Resign() // or its lease expires
			tenures = append(tenures, within(t, frozenLimit, second, "end of B's term"))
			again := within(t, frozenLimit, terms, "second election of A")
			third := follow(again)
			eventually(t, "two renewals by A", func() bool { return j.renewals(t, job, again.Token()) >= 2 })
			if !ways[i].dead {
				eventually(t, "return of the old calls", func() bool { return pool.Stats().InUse <= 1 })
			} else if driver == "postgres" && pool.Stats().InUse == 0 {
				t.Error("the driver holds no call: the test shows nothing")
			}
			_ = again.Resign() // or its lease expires
			j.check(t, append(tenures, within(t, frozenLimit, third, "end of A's second term"))...)
		})
	})
}

// New connections pass all the time: the leader opens one before its trust ends.
func TestLeaderKeepsItsTermWhenOnlyItsConnectionDies(t *testing.T) {
	t.Parallel()
	// One renewal may take a third of the TTL, until it is given up. The short interval leaves time for a login on a busy machine.
	config := leader.Config{TTL: 5 * time.Second, RenewEvery: 200 * time.Millisecond}
	withEachDriver(t, func(t *testing.T, driver, url string) {
		const job = "nightly-report"
		j := keepJournal(t, url)
		proxy := pgtest.NewProxy(t, url)
		term := within(t, frozenLimit, campaigning(t, electorOn(t, pgtest.Open(t, driver, proxy.URL), config), job), "election")
		held := follow(term)
		proxy.FreezeOpen()
		frozen := time.Now()
		eventually(t, "renewal over a new connection", func() bool {
			return j.renewedAfter(t, job, term.Token(), frozen.Add(config.TTL/3))
		})
		if err := context.Cause(term.Context()); err != nil {
			t.Errorf("the term ended: %v", err)
		}
		go func() { _ = term.Resign() }() // what counts is the end of its context, before its lease
		j.check(t, within(t, frozenSlack, held, "end of the term"))
	})
}

// connect_timeout is needed by a pool of limited size: when somebody waits for a connection, package database/sql opens one for all that
// wait, without any of their contexts, and in a frozen path that call never ends, on pgx neither.
const connectTimeout = "&connect_timeout=4"

func TestPoolWhoseConnectionsAllDieCostsTheTermInTime(t *testing.T) {
	t.Parallel()
	withEachDriver(t, func(t *testing.T, driver, url string) {
		j := keepJournal(t, url)
		names := []string{"pool of 1", "pool of 2"}
		together(t, len(names), func(i int) string { return names[i] }, func(t *testing.T, i int) {
			job := names[i]
			proxy := pgtest.NewProxy(t, url)
			pool := pgtest.Open(t, driver, proxy.URL+connectTimeout)
			fill(t, pool, i+1)
			a := electorOn(t, pool, frozenConfig)
			terms := running(t, a, job)
			first := follow(within(t, frozenLimit, terms, "election of A"))
			successor := campaigning(t, frozenElector(t, driver, url), job)

			proxy.Freeze()
			n := within(t, frozenLimit, first, "end of A's term")
			next := within(t, frozenLimit, successor, "election of B")
			j.check(t, n)
			proxy.FreezeOpen()
			proxy.Thaw()
			_ = next.Resign() // or its lease expires
			if driver == "postgres" {
				// lib/pq gives no connection back, so the pool has none left. That is told, not waited for.
				if _, err := a.Leases(t.Context()); err == nil || pool.Stats().InUse != i+1 {
					t.Errorf("%d connections hang, and Leases returns %v; want %d and an error", pool.Stats().InUse, err, i+1)
				}
				proxy.Cut() // the network gives the old connections up
				if err := proxy.Restore(); err != nil {
					t.Fatal(err)
				}
			}
			within(t, frozenLimit, terms, "second election of A")
		})
	})
}

// The remedy for lib/pq, which has no setting for it: a dialer that limits each read frees what hangs.
func TestReadLimitFreesAPoolOfOneFromItsDeadConnection(t *testing.T) {
	t.Parallel()
	withEachDriver(t, func(t *testing.T, driver, url string) {
		const job = "nightly-report"
		proxy := pgtest.NewProxy(t, url)
		pool := (&dialer{readLimit: frozenTTL / 2}).open(t, driver, proxy.URL)
		fill(t, pool, 1)
		terms := running(t, electorOn(t, pool, frozenConfig), job)
		first := within(t, frozenLimit, terms, "election")
		proxy.Freeze()
		within(t, frozenLimit, first.Context().Done(), "end of the term")
		proxy.FreezeOpen()
		proxy.Thaw()
		within(t, frozenLimit, terms, "second election")
	})
}

// A path that is gone for long is tried at a measured pace, whether connections are swallowed or refused.
func TestBrokenPathIsNotHammered(t *testing.T) {
	t.Parallel()
	const (
		jobs       = 10
		long       = 3 * time.Second
		retryEvery = 50 * time.Millisecond
	)
	ways := []struct {
		name        string
		gone        func(*pgtest.Proxy)
		back        func(*pgtest.Proxy) error
		maxDialling int64
	}{
		// What a driver keeps hanging is let go only a few times, then at doubling intervals. lib/pq dials again to cancel.
		{"frozen", (*pgtest.Proxy).Freeze, func(p *pgtest.Proxy) error { p.Thaw(); return nil }, 2 * 25},
		// One look per RetryEvery for all candidates; before, each asks for the lease at most three times; and the renewals.
		{"refused", (*pgtest.Proxy).Cut, (*pgtest.Proxy).Restore, 2*int64(long/retryEvery) + 3*jobs},
	}
	withEachDriver(t, func(t *testing.T, driver, url string) {
		j := keepJournal(t, url)
		together(t, len(ways), func(i int) string { return ways[i].name }, func(t *testing.T, i int) {
			way := ways[i]
			proxy := pgtest.NewProxy(t, url)
			var d dialer
			pool := d.open(t, driver, proxy.URL)
			e := electorOn(t, pool, leader.Config{TTL: frozenTTL, RetryEvery: retryEvery})
			term := within(t, frozenLimit, campaigning(t, e, way.name), "election")
			held := follow(term)
			before := d.dialled.Load()
			way.gone(proxy)
			others := make([]<-chan *leader.Term, jobs)
			for k := range others {
				others[k] = campaigning(t, e, way.name+string(rune('A'+k)))
			}
			<-time.After(long)
			dialled, stats := d.dialled.Load()-before, pool.Stats()
			t.Logf("%d connection attempts in %v, %d hang in the driver", dialled, long, stats.InUse)
			if dialled > way.maxDialling {
				t.Errorf("%d connection attempts in %v, want at most %d", dialled, long, way.maxDialling)
			}
			if stats.InUse > 25 {
				t.Errorf("%d calls hang in the driver, want at most 25", stats.InUse)
			}
			if err := way.back(proxy); err != nil {
				t.Fatal(err)
			}
			for k := range others {
				within(t, frozenLimit, others[k], "election after the path is back")
			}
			j.check(t, within(t, frozenLimit, held, "end of the term"))
		})
	})
}

// Whatever is called on a frozen path returns: when its context ends, or when one call has had its time.
func TestCallsOnAFrozenPathReturnInTime(t *testing.T) {
	t.Parallel()
	const (
		callLimit = frozenTTL / 3
		short     = 200 * time.Millisecond
		slack     = 1 * time.Second // of a busy machine
	)
	calls := []struct {
		name    string
		bounded bool // by a context
		limit   time.Duration
		call    func(context.Context, *leader.Elector, *leader.Term) error
	}{
		{"TryAcquire", false, frozenTTL, tryAcquire},
		{"TryAcquire with a deadline", true, short + callLimit, tryAcquire}, // it hears a late answer out
		{"Campaign with a deadline", true, short + callLimit, func(ctx context.Context, e *leader.Elector, _ *leader.Term) error {
			_, err := e.Campaign(ctx, "another job")
			return err
		}},
		{"Run with a deadline", true, short + callLimit, func(ctx context.Context, e *leader.Elector, _ *leader.Term) error {
			return e.Run(ctx, "another job", func(context.Context, *leader.Term) error { return errors.New("elected") })
		}},
		{"Leases", false, callLimit, listLeases},
		{"Leases with a deadline", true, short, listLeases},
		{"Observe", false, 2 * callLimit, observe},
		{"Observe with a deadline", true, short, observe},
		{"Resign", false, frozenTTL, func(_ context.Context, _ *leader.Elector, term *leader.Term) error { return term.Resign() }},
	}
	withEachDriver(t, func(t *testing.T, driver, url string) {
		together(t, len(calls), func(i int) string { return calls[i].name }, func(t *testing.T, i int) {
			c := calls[i]
			proxy := pgtest.NewProxy(t, url)
			e := frozenElector(t, driver, proxy.URL)
			term := within(t, frozenLimit, campaigning(t, e, c.name), "election")
			proxy.Freeze()
			ctx := t.Context()
			if c.bounded {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, short)
				defer cancel()
			}
			begun := time.Now()
			returned := make(chan error, 1)
			go func() { returned <- c.call(ctx, e, term) }()
			if c.name == "Resign" {
				within(t, slack, term.Context().Done(), "end of the term's context")
			}
			err := within(t, frozenLimit, returned, c.name)
			if took := time.Since(begun); took > c.limit+slack {
				t.Errorf("returned after %v, want %v", took, c.limit)
			}
			switch {
			case err == nil:
				t.Error("no error")
			case c.bounded && !errors.Is(err, context.DeadlineExceeded):
				t.Errorf("error %v, want that of the context", err)
			}
		})
	})
}

func tryAcquire(ctx context.Context, e *leader.Elector, _ *leader.Term) error {
	_, _, err := e.TryAcquire(ctx, "another job")
	return err
}

func listLeases(ctx context.Context, e *leader.Elector, _ *leader.Term) error {
	_, err := e.Leases(ctx)
	return err
}

func observe(ctx context.Context, e *leader.Elector, _ *leader.Term) error {
	for _, err := range e.Observe(ctx, "another job") {
		return err
	}
	return nil
}

// Guard uses the caller's transaction, and so the caller's driver: over lib/pq it returns only when the connection ends. The
// term's context does not wait for it.
func TestTermEndsInTimeWhileItsGuardHangs(t *testing.T) {
	t.Parallel()
	withEachDriver(t, func(t *testing.T, driver, url string) {
		const job = "nightly-report"
		j := keepJournal(t, url)
		proxy := pgtest.NewProxy(t, url)
		pool := pgtest.Open(t, driver, proxy.URL)
		term := within(t, frozenLimit, campaigning(t, electorOn(t, pool, frozenConfig), job), "election")
		held := follow(term)
		tx, err := pool.Begin()
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		proxy.Freeze()
		guarded := make(chan error, 1)
		go func() { guarded <- term.Guard(t.Context(), tx) }()
		j.check(t, within(t, frozenLimit, held, "end of the term"))
		if driver == "postgres" {
			proxy.Cut()
		}
		if err := within(t, frozenLimit, guarded, "Guard"); err == nil {
			t.Error("Guard on a frozen path returned no error")
		}
	})
}

// The caller has gone: if the driver comes back to life later, the job must not be taken in its name.
func TestClaimGivenUpIsNotMadeWhenThePathIsBack(t *testing.T) {
	t.Parallel()
	withEachDriver(t, func(t *testing.T, driver, url string) {
		const job = "nightly-report"
		j := keepJournal(t, url)
		proxy := pgtest.NewProxy(t, url)
		pool := pgtest.Open(t, driver, proxy.URL)
		e := electorOn(t, pool, frozenConfig)
		proxy.Freeze() // before there is a connection: the claim itself is never sent
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, _, err := e.TryAcquire(ctx, job); err == nil {
			t.Fatal("acquired over a frozen path")
		}
		proxy.Thaw()
		eventually(t, "return of the old calls", func() bool { return pool.Stats().InUse == 0 })
		if entries := j.entries(t, job); len(entries) > 0 {
			t.Errorf("a claim that was given up has taken the lease: %+v", entries)
		}
	})
}

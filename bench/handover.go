package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lib/pq"

	"github.com/pgleader/pgleader/leader"
)

// A handing is one way to hand over: from the leader's call that releases until the waiting
// candidate has been elected.
type handing struct {
	subject, driver string
	rounds          int
	once            func() (time.Duration, error)
}

// handover measures how long a job has no leader after a graceful release.
func (b *bench) handover(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var ways []handing
	for _, d := range drivers {
		crew, err := b.crew(ctx, d, true)
		if err != nil {
			return err
		}
		alone, err := b.crew(ctx, d, false)
		if err != nil {
			return err
		}
		lock, err := b.advisoryHanding(ctx, d)
		if err != nil {
			return err
		}
		ways = append(ways,
			handing{"pgleader, with a listener", d.name, b.scale(200, 8), crew},
			handing{"pgleader, RetryEvery 1.5 s, without", d.name, b.scale(10, 1), alone},
			handing{"session advisory lock, waiting in the server", d.name, b.scale(200, 8), lock})
	}
	peer, err := b.listeningHanding(ctx)
	if err != nil {
		return err
	}
	riverClient, err := b.riverHanding(ctx)
	if err != nil {
		return err
	}
	ways = append(ways,
		handing{"upsert and LISTEN", "lib/pq", b.scale(200, 8), peer},
		handing{"river's client", "pgx, its own pool", b.scale(10, 1), riverClient})

	samples := make([][]time.Duration, len(ways))
	for round := range b.scale(200, 8) {
		for _, i := range rand.Perm(len(ways)) {
			if round >= ways[i].rounds {
				continue
			}
			took, err := ways[i].once()
			if err != nil {
				return fmt.Errorf("%s over %s: %w", ways[i].subject, ways[i].driver, err)
			}
			samples[i] = append(samples[i], took)
		}
	}
	t := &table{
		title: "hand-over after a graceful release",
		note: "From the call that releases to the moment when the successor's call returns; " +
			"both commits are within.",
		columns: []string{"subject", "driver", "n", "median ms", "p99 ms"},
	}
	for i, w := range ways {
		r := row{Bench: "handover", Subject: w.subject, Driver: w.driver}.timed(samples[i])
		b.rows = append(b.rows, r)
		t.add(r.Subject, r.Driver, fmt.Sprint(r.N), millis(r.MedianUS), millis(r.P99US))
	}
	b.tables = append(b.tables, t)
	return nil
}

// crew hands a job back and forth between two electors, each with a pool and, if it listens, a
// listener of its own.
func (b *bench) crew(
	ctx context.Context, d driver, listen bool,
) (func() (time.Duration, error), error) {
	job := fmt.Sprintf("handover over %s, listening %v", d.name, listen)
	var electors [2]*leader.Elector
	waiting := make(chan struct{}, 100)
	for i := range electors {
		pool, err := b.pool(d, b.url, 2)
		if err != nil {
			return nil, err
		}
		electors[i], err = elector(pool, leader.Config{OnEvent: func(e leader.Event) {
			if e.Kind == leader.EventWaiting {
				waiting <- struct{}{}
			}
		}})
		if err != nil {
			return nil, err
		}
		if !listen {
			continue
		}
		listening := make(chan struct{}, 1)
		ended := make(chan error, 1)
		go func() {
			ended <- d.listen(ctx, b.url, func(job string) {
				if job == "" {
					select {
					case listening <- struct{}{}:
					default:
					}
				}
				electors[i].Wake(job)
			})
		}()
		select {
		case <-listening:
		case err := <-ended:
			return nil, err
		}
	}
	term, err := electors[0].Campaign(ctx, job)
	if err != nil {
		return nil, err
	}
	// Nobody may go on renewing while something else is measured.
	context.AfterFunc(ctx, func() { _ = term.Resign() })
	turn := 0
	return func() (time.Duration, error) {
		turn++
		type elected struct {
			term *leader.Term
			at   time.Time
			err  error
		}
		next := make(chan elected, 1)
		go func() {
			t, err := electors[turn%2].Campaign(ctx, job)
			next <- elected{t, time.Now(), err}
		}()
		<-waiting
		time.Sleep(5*time.Millisecond + rand.N(5*time.Millisecond))
		begun := time.Now()
		if err := term.Resign(); err != nil {
			return 0, err
		}
		successor := <-next
		term = successor.term
		return successor.at.Sub(begun), successor.err
	}, nil
}

// advisoryHanding has the candidate wait in pg_advisory_lock, which takes a connection each, for as
// long as it waits.
func (b *bench) advisoryHanding(
	ctx context.Context, d driver,
) (func() (time.Duration, error), error) {
	pool, err := b.pool(d, b.url, 2)
	if err != nil {
		return nil, err
	}
	var conns [2]*sql.Conn
	for i := range conns {
		if conns[i], err = pool.Conn(ctx); err != nil {
			return nil, err
		}
		b.Cleanup(func() { conns[i].Close() })
	}
	key := rand.Int64()
	lock := func(c *sql.Conn) error {
		_, err := c.ExecContext(ctx, `SELECT pg_advisory_lock($1)`, key)
		return err
	}
	if err := lock(conns[0]); err != nil {
		return nil, err
	}
	turn := 0
	return func() (time.Duration, error) {
		old, successor := conns[turn%2], conns[(turn+1)%2]
		turn++
		got := make(chan error, 1)
		var at time.Time
		go func() { err := lock(successor); at = time.Now(); got <- err }()
		time.Sleep(5 * time.Millisecond)
		begun := time.Now()
		_, err := old.ExecContext(ctx, `SELECT pg_advisory_unlock($1)`, key)
		err = errors.Join(err, <-got) // before at is read
		return at.Sub(begun), err
	}, nil
}

// listeningHanding has the candidate wait for a notification.
func (b *bench) listeningHanding(ctx context.Context) (func() (time.Duration, error), error) {
	const job = "handed over"
	if err := listeningTable(ctx, b); err != nil {
		return nil, err
	}
	pool, err := b.pool(drivers[0], b.url, 2)
	if err != nil {
		return nil, err
	}
	listener := pq.NewListener(b.url, time.Second, time.Minute, nil)
	b.Cleanup(func() { listener.Close() })
	if err := listener.Listen("listening"); err != nil {
		return nil, err
	}
	if _, _, err := listeningClaim(ctx, pool, job, "holder 0"); err != nil {
		return nil, err
	}
	turn := 0
	return func() (time.Duration, error) {
		old, successor := fmt.Sprint("holder ", turn), fmt.Sprint("holder ", turn+1)
		turn++
		if mine, _, err := listeningClaim(ctx, pool, job, successor); err != nil || mine {
			return 0, unexpected(err)
		}
		got := make(chan error, 1)
		var at time.Time
		go func() {
			<-listener.Notify
			mine, _, err := listeningClaim(ctx, pool, job, successor)
			at = time.Now()
			if err == nil && !mine {
				err = errors.New("not elected after a notification")
			}
			got <- err
		}()
		time.Sleep(5 * time.Millisecond)
		begun := time.Now()
		err := listeningRelease(ctx, pool, job, old)
		if err != nil {
			return 0, err
		}
		err = <-got
		return at.Sub(begun), err
	}, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// strike sends a signal to a worker, and returns the database's time just before.
func (t *teller) strike(
	ctx context.Context, name string, sig syscall.Signal, deed string,
) (time.Time, error) {
	now, err := t.now(ctx)
	if err != nil {
		return now, err
	}
	t.say.line("demo", "%s %s", deed, name)
	return now, t.crew.signal(name, sig)
}

func (t *teller) now(ctx context.Context) (now time.Time, err error) {
	if err = t.pool.QueryRowContext(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
		return now, fmt.Errorf("ask the database for the time: %w", err)
	}
	return now, nil
}

// succession waits until a worker other than the old one leads. It took the time from start to the
// beginning of its term, both by the database's clock.
func (t *teller) succession(
	ctx context.Context, mark int, start time.Time, old string,
) (next event, took time.Duration, err error) {
	next, err = t.crew.await(ctx, mark,
		func(e event) bool { return e.Kind == elected && e.who != old })
	if err != nil {
		return event{}, 0, fmt.Errorf("wait for a leader: %w", err)
	}
	leases, err := t.observer.Leases(ctx)
	if err != nil {
		return event{}, 0, err
	}
	for _, l := range leases {
		if l.Job == job && l.Token == next.Token {
			return next, l.AcquiredAt.Sub(start), nil
		}
	}
	return event{}, 0, fmt.Errorf("%s says that it leads under token %d, but the lease says otherwise",
		next.who, next.Token)
}

// successionInTime is succession with its judgement.
func (t *teller) successionInTime(
	ctx context.Context, mark int, start time.Time, old, what string,
	limit time.Duration, terms string,
) (event, error) {
	next, took, err := t.succession(ctx, mark, start, old)
	if err != nil {
		t.verdict.never(what, limit, terms)
		return event{}, err
	}
	t.verdict.within(what, took, limit, terms)
	return next, nil
}

// waits waits until the worker has said that it waits for this leader.
func (t *teller) waits(ctx context.Context, mark int, name string, leading event) error {
	_, err := t.crew.await(ctx, mark, func(e event) bool {
		return e.who == name && e.Kind == waiting && e.Token == leading.Token &&
			nameOf(e.Holder) == leading.who
	})
	if err != nil {
		return fmt.Errorf("wait until %s waits for %s: %w", name, leading.who, err)
	}
	return nil
}

func said(name, kind string) func(event) bool {
	return func(e event) bool { return e.who == name && e.Kind == kind }
}

// errRestless says that a leader lost its term although nobody did anything to it.
var errRestless = errors.New("its term has ended although nobody did anything to it")

// written waits until the leader has committed so many guarded writes.
func (t *teller) written(ctx context.Context, leading event, enough int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errNever)
	defer cancel()
	tick := time.NewTicker(writeEvery / 2)
	defer tick.Stop()
	for {
		var n int
		var newest int64
		err := t.pool.QueryRowContext(ctx,
			`SELECT count(*) FILTER (WHERE token = $1), coalesce(max(token), 0) FROM demo_write`,
			leading.Token).Scan(&n, &newest)
		switch {
		case err == nil && n >= enough:
			t.say.line("demo", "counts %d guarded writes under token %d", n, leading.Token)
			return nil
		case err == nil && newest > leading.Token:
			err = errRestless
		case err == nil:
			select {
			case <-tick.C:
				continue
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
		}
		return fmt.Errorf("wait for %d guarded writes of %s under token %d: %w",
			enough, leading.who, leading.Token, err)
	}
}

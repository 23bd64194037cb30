//go:build unix

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pgleader/pgleader/internal/chaos/check"
	"github.com/pgleader/pgleader/leader"
)

const (
	tickEvery  = 40 * time.Millisecond
	writeEvery = 120 * time.Millisecond
)

// lead is the work of a leader. Until its context ends it ticks without a guard and writes with
// one. Sometimes it needs a moment to notice.
func (w *worker) lead(ctx context.Context, term *leader.Term) error {
	job, token := term.Job(), term.Token()
	w.tell(check.Record{Kind: check.Begin, Job: job, Token: token})
	var ticks sync.WaitGroup
	ticks.Go(func() { w.ticks(ctx, term) })
	for ctx.Err() == nil {
		w.write(ctx, term)
		pause(ctx, w.upTo(writeEvery))
	}
	ticks.Wait()
	if w.chance(2) {
		time.Sleep(w.upTo(60 * time.Millisecond))
	}
	cause := fmt.Sprint(context.Cause(ctx))
	w.tell(check.Record{Kind: check.End, Job: job, Token: token, Cause: cause})
	w.tell(check.Record{Kind: check.Campaign, Job: job})
	return ctx.Err()
}

// ticks asks the database for the time again and again. After each answer it says whether the
// context is alive. No fault of the network reaches its connection: the worst leader is one whose
// work goes on while its lease can't be renewed.
func (w *worker) ticks(ctx context.Context, term *leader.Term) {
	last := check.Record{Kind: check.Tick, Job: term.Job(), Token: term.Token()}
	for {
		now, err := w.databaseTime()
		if !last.Before.IsZero() {
			last.After = now
			w.tell(last)
			last.Before, last.After = time.Time{}, time.Time{}
		}
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			last.Before = now
		}
		pause(ctx, tickEvery)
	}
}

// databaseTime is not bounded by the term: the answer must be believed, whenever it comes.
func (w *worker) databaseTime() (now time.Time, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err = w.clock.QueryRowContext(ctx, "SELECT clock_timestamp()").Scan(&now)
	return now, err
}

// write changes the job's register under the term's guard, and tells how it ended. Half of the
// writes go on when the term is over, as work does that does not look at its context. The guard
// alone must keep them from committing beside a successor's.
func (w *worker) write(ctx context.Context, term *leader.Term) {
	r := check.Record{
		Kind: check.Written, Job: term.Job(), Token: term.Token(),
		Value: w.value.Add(1), From: time.Now(),
	}
	begins := r
	begins.Kind = check.Writing // a process that is killed may have committed, and not said so
	w.tell(begins)
	if w.chance(2) {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, 3*w.TTL)
	defer cancel()
	r.Outcome = check.Failed
	if err := w.guarded(ctx, term, &r); err != nil {
		r.Cause = err.Error()
		if errors.Is(err, leader.ErrLost) && r.Outcome == check.Failed {
			r.Outcome = check.Refused
		}
	}
	w.tell(r)
}

func (w *worker) guarded(ctx context.Context, term *leader.Term, r *check.Record) error {
	options := &sql.TxOptions{}
	if w.chance(4) {
		options.Isolation = sql.LevelRepeatableRead
	}
	tx, err := w.pool.BeginTx(ctx, options)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := term.Guard(ctx, tx); err != nil {
		return err
	}
	err = tx.QueryRowContext(ctx,
		"SELECT value FROM chaos_register WHERE job_name = $1 FOR UPDATE", r.Job).Scan(&r.Read)
	if err != nil {
		return err
	}
	switch { // the time in which a successor could slip in
	case w.chance(25):
		pause(ctx, w.TTL+w.upTo(w.TTL))
	case w.chance(3):
		pause(ctx, w.upTo(100*time.Millisecond))
	}
	_, err = tx.ExecContext(ctx,
		"UPDATE chaos_register SET value = $2, token = $3 WHERE job_name = $1", r.Job, r.Value, r.Token)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx,
		"INSERT INTO chaos_write (job_name, worker, token, value) VALUES ($1, $2, $3, $4)",
		r.Job, w.Worker, r.Token, r.Value)
	if err != nil {
		return err
	}
	r.Outcome = check.Unknown
	if err := tx.Commit(); err != nil {
		return err
	}
	r.Outcome = check.OK
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

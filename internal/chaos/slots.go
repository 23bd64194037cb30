//go:build unix

package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pgleader/pgleader/schedule"
)

var errWork = errors.New("the work failed")

// slot is the work of one slot: it takes its time, and completes the slot in the transaction that
// writes its effect. Some of it fails.
func (w *worker) slot(ctx context.Context, s *schedule.Slot) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var ticks sync.WaitGroup
	ticks.Go(func() { w.ticks(ctx, s.Term()) })
	err := w.effect(ctx, s)
	cancel()
	ticks.Wait()
	return err
}

func (w *worker) effect(ctx context.Context, s *schedule.Slot) error {
	d := w.upTo(250 * time.Millisecond)
	if w.chance(12) {
		d = w.TTL + w.upTo(w.TTL)
	}
	if w.chance(3) {
		time.Sleep(d) // and does not look at its context
	} else {
		pause(ctx, d)
	}
	if w.chance(10) {
		return errWork
	}
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*w.TTL)
	defer cancel()
	tx, err := w.pool.BeginTx(patient, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := s.Complete(patient, tx); err != nil {
		return err
	}
	_, err = tx.ExecContext(patient,
		"INSERT INTO chaos_effect (job_name, slot, token) VALUES ($1, $2, $3)",
		s.Term().Job(), s.Time(), s.Term().Token())
	if err != nil {
		return err
	}
	if w.chance(15) {
		return nil // without the commit
	}
	return tx.Commit()
}

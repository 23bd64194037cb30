//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pgleader/pgleader/internal/chaos/check"
	"github.com/pgleader/pgleader/leader"
)

// befall does something to a worker, and undoes it.
func (h *history) befall(ctx context.Context, m *member, f fault) {
	switch f.kind {
	case "kill":
		m.kill()
		sleep(ctx, f.length/4)
		h.check(m.start())
	case "shutdown":
		if !m.terminate(shutdownLimit) {
			h.fail(m.worker() + " did not end after SIGTERM")
		}
		sleep(ctx, f.length/4)
		h.check(m.start())
	case "stop":
		m.stop()
		sleep(ctx, f.length)
		m.goOn()
	case "cut":
		m.proxy.Cut()
		sleep(ctx, f.length)
		h.restore(ctx, m)
	case "black hole":
		m.proxy.Freeze()
		sleep(ctx, f.length)
		m.proxy.Thaw()
	case "replies lost":
		m.proxy.FreezeReplies()
		sleep(ctx, f.length)
		m.proxy.Thaw()
	case "late statements": // they arrive after their own retry
		m.proxy.HoldOpen()
		sleep(ctx, f.length)
		m.proxy.DeliverHeld()
	case "slow path":
		h.slow(ctx, m, f.length)
	case "connections terminated":
		_, err := h.db.ExecContext(ctx,
			"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1", m.name)
		h.checkOrBroken(err)
	case "pool exhausted":
		m.command(grab, f.length)
		sleep(ctx, f.length)
	case "clock step":
		d := f.length * 2
		if f.wait.Milliseconds()%2 == 0 {
			d = -d
		}
		m.command(step, d)
	default:
		h.fail("no such fault: " + f.kind)
	}
}

// shutdownLimit is more than a worker may need: its work may have a transaction open for three TTL,
// and the release one more.
const shutdownLimit = 10 * time.Second

// restore opens the path again, when nobody else has its port: proxies of other histories pick
// theirs at random.
func (h *history) restore(ctx context.Context, m *member) {
	err := m.proxy.Restore()
	for range 100 {
		if err == nil || !sleep(ctx, 100*time.Millisecond) {
			return
		}
		err = m.proxy.Restore()
	}
	h.check(err)
}

// slow delays every byte by up to a third of a call's time, again and again.
func (h *history) slow(ctx context.Context, m *member, length time.Duration) {
	for end := time.Now().Add(length); time.Now().Before(end) && ctx.Err() == nil; {
		m.proxy.Freeze()
		sleep(ctx, h.timing.TTL/10)
		m.proxy.Thaw()
		sleep(ctx, h.timing.TTL/50)
	}
}

// befallDatabase does something to the rows that all workers share.
func (h *history) befallDatabase(ctx context.Context, f fault) {
	jobs := append(append([]string(nil), h.jobs...), h.slotJobs...)
	job := jobs[int(f.wait.Microseconds())%len(jobs)]
	switch f.kind {
	case "row locked":
		h.lock(ctx, "SELECT FROM leader_lease WHERE job_name = $1 FOR UPDATE", job, f.length)
	case "row locked for share":
		h.lock(ctx, "SELECT FROM leader_lease WHERE job_name = $1 FOR SHARE", job, f.length)
	case "dismiss":
		h.dismiss(ctx, job)
	default:
		h.fail("no such fault: " + f.kind)
	}
}

// lock holds the lease row as a person does who looks at it in psql.
func (h *history) lock(ctx context.Context, query, job string, length time.Duration) {
	tx, err := h.db.BeginTx(ctx, nil)
	if err != nil {
		h.checkOrBroken(err)
		return
	}
	defer tx.Rollback()
	_, err = tx.ExecContext(ctx, query, job)
	h.checkOrBroken(err)
	sleep(ctx, length)
}

// dismiss takes a job away from its leader. What became of a call that failed is not known; nothing
// rests on it.
func (h *history) dismiss(ctx context.Context, job string) {
	from := time.Now()
	lease, err := h.operator.Dismiss(ctx, job)
	if err == nil && lease.Dismissed() {
		return // it was before, and stays as it is
	}
	if err == nil {
		h.record(check.Record{
			Worker: "operator", Kind: check.Dismiss, Job: job, Token: lease.Token,
			From: from, At: time.Now(),
		})
	} else if !errors.Is(err, leader.ErrNotLed) && h.strict {
		// A guarded transaction that is open keeps it waiting.
		h.note(fmt.Sprintf("dismiss %s: %v", job, err))
	}
}

package contract_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

// A slotHost is one host's elector and scheduler.
type slotHost struct {
	*leader.Elector
	*schedule.Scheduler
}

// slotElector takes over soon.
func slotElector(t *testing.T, pool *sql.DB, cfg leader.Config) slotHost {
	t.Helper()
	if cfg.TTL == 0 {
		cfg.TTL = 3 * time.Second
	}
	if cfg.RetryEvery == 0 {
		cfg.RetryEvery = 20 * time.Millisecond
	}
	e := newElector(t, pool, cfg)
	s, err := schedule.New(e, schedule.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return slotHost{e, s}
}

// catchUpAll runs every slot, however many are late.
var catchUpAll = schedule.Policy{CatchUp: schedule.CatchUpAll}

func history(t *testing.T, e slotHost, job string) []schedule.Record {
	t.Helper()
	runs, err := e.History(t.Context(), job, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

// onRecord checks that the job has one slot on record, and how it stands.
func onRecord(t *testing.T, e slotHost, job string, state schedule.State, attempt int) {
	t.Helper()
	h := history(t, e, job)
	if len(h) != 1 || h[0].State != state || h[0].Attempt != attempt {
		t.Errorf("on record is %+v, want one slot, %s with attempt %d", h, state, attempt)
	}
}

// done writes the record of a slot that was run in the past.
func done(t *testing.T, pool *sql.DB, job string, slot time.Time, state string, attempt int) {
	t.Helper()
	mustExec(t, pool, `
		INSERT INTO leader_slot (job_name, slot, state, attempt, token, holder, started_at, finished_at)
		VALUES ($1, $2::timestamptz, $3::text, $4, 0, 'gone', $2,
		        CASE WHEN $3 = 'running' THEN NULL ELSE $2 END)`, job, slot, state, attempt)
}

// every comes at each multiple of d.
type every time.Duration

func (d every) Next(after time.Time) time.Time {
	return after.Truncate(time.Duration(d)).Add(time.Duration(d))
}

// A grid comes at every interval before and after an instant.
type grid struct {
	at       time.Time
	interval time.Duration
}

func (g grid) Next(after time.Time) time.Time {
	n := after.Sub(g.at).Truncate(g.interval)
	for next := g.at.Add(n - g.interval); ; next = next.Add(g.interval) {
		if next.After(after) {
			return next.UTC()
		}
	}
}

// between comes at each multiple of the interval, from an instant up to, but not at, another.
type between struct {
	from, to time.Time
	interval time.Duration
}

func (b between) Next(after time.Time) time.Time {
	next := after.Truncate(b.interval).Add(b.interval)
	if next.Before(b.from) {
		next = b.from
	}
	if !next.Before(b.to) {
		return time.Time{}
	}
	return next.UTC()
}

type never struct{}

func (never) Next(time.Time) time.Time { return time.Time{} }

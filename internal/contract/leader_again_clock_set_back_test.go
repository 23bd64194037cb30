package contract_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

// A candidate frees such a lease by itself.
func TestCandidateFreesALeaseThatStandsStill(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		cfg := leader.Config{TTL: time.Second, RetryEvery: 20 * time.Millisecond}
		dead := newElector(t, pool, cfg)
		acquire(t, dead, job)
		mustExec(t, pool, `UPDATE leader_lease SET holder = 'a host that is gone',
			renewed_at = renewed_at + interval '1 hour', expires_at = expires_at + interval '1 hour'`)
		var seen events
		cfg.OnEvent = seen.add
		term := campaign(t, newElector(t, pool, cfg), job)
		freed := seen.of(leader.EventClockSetBack)
		if len(freed) != 1 || freed[0].Holder != "a host that is gone" {
			t.Errorf("reported %+v", freed)
		}
		resign(t, term)
	})
}

// The rows are as they would be if the clock had been set back by an hour.
func TestFreeLeaseEndsOnlyALeaseThatStandsStill(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		q := db.New(pool)
		term := acquire(t, newElector(t, pool, slow), job)
		renewed := func() time.Time {
			return scan[time.Time](t, pool, `SELECT renewed_at FROM leader_lease WHERE job_name = $1`, job)
		}
		free := func(want int64, why string, args db.FreeLeaseParams) {
			t.Helper()
			if n, err := q.FreeLease(t.Context(), args); err != nil || n != want {
				t.Errorf("FreeLease, %s: %d, %v; want %d", why, n, err, want)
			}
		}
		args := db.FreeLeaseParams{JobName: job, Token: term.Token(), RenewedAt: renewed()}
		mustExec(t, pool, `UPDATE leader_lease SET
			renewed_at = renewed_at + interval '1 hour', expires_at = expires_at + interval '1 hour'`)
		free(0, "of a lease renewed since", args)
		args.RenewedAt = renewed()
		other := args
		other.Token++
		free(0, "of another term", other)
		refused(t, newElector(t, pool, slow), job)
		lock := begin(t, pool, sql.LevelDefault)
		txExec(t, lock, `SELECT FROM leader_lease FOR UPDATE`)
		free(0, "of a row that somebody has locked", args)
		rollback(t, lock)
		free(1, "of a lease that stands still", args)
		if next := acquire(t, newElector(t, pool, slow), job); next.Token() != term.Token()+1 {
			t.Errorf("token %d after %d", next.Token(), term.Token())
		}
		free(0, "of its successor", args)
	})
}

package contract_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

func TestOldSlotsAreDeletedByHundredsAndNeverARunningOneNorTheNewest(t *testing.T) {
	t.Parallel()
	const days = 24 * 60 * 60
	for _, tt := range []struct {
		name  string
		young bool // there are two younger slots
		keep  float64
		want  []int64 // deleted by one call after another
	}{
		{"all are old", false, 90 * days, []int64{100, 100, 44, 0}},
		{"two are younger", true, 90 * days, []int64{100, 100, 45, 0}},
		{"none is old enough", true, 120 * days, []int64{0}},
		{"everything is old enough", true, 0, []int64{100, 100, 46, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			forEachDriver(t, func(t *testing.T, driver, url string) {
				pool := pgtest.Open(t, driver, url)
				mustExec(t, pool, oldSlots, job)
				mustExec(t, pool, oldSlots, "another job")
				if tt.young {
					now := databaseNow(t, pool)
					done(t, pool, job, now.Add(-2*time.Hour), "done", 1)
					done(t, pool, job, now.Add(-time.Hour), "done", 1)
				}
				const newestSlot = `SELECT max(slot) FROM leader_slot WHERE job_name = $1`
				newest := scan[time.Time](t, pool, newestSlot, job)
				var got []int64
				for range tt.want {
					oldest := scan[time.Time](t, pool, `SELECT min(slot) FROM leader_slot
						WHERE job_name = $1 AND state <> 'running'`, job)
					prune := db.PruneSlotsParams{JobName: job, KeepSeconds: tt.keep, MaxRows: 100}
					n, err := db.New(pool).PruneSlots(t.Context(), prune)
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, n)
					left := scan[bool](t, pool,
						`SELECT count(*) > 0 FROM leader_slot WHERE job_name = $1 AND slot = $2`, job, oldest)
					if n > 0 && left {
						t.Errorf("the oldest of the decided slots, %v, is not deleted before others", oldest)
					}
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("deleted %d slots, want %d", got, tt.want)
				}
				if n := scan[int](t, pool, `SELECT count(*) FROM leader_slot
					WHERE job_name = $1 AND state = 'running'`, job); n != 5 {
					t.Errorf("%d slots are running, want 5", n)
				}
				if now := scan[time.Time](t, pool, newestSlot, job); !now.Equal(newest) {
					t.Errorf("the newest slot is %v, and was %v", now, newest)
				}
				n := scan[int](t, pool, `SELECT count(*) FROM leader_slot WHERE job_name = 'another job'`)
				if n != 250 {
					t.Errorf("another job has %d slots left, want 250", n)
				}
			})
		})
	}
}

// oldSlots writes the records of 250 hourly slots, a hundred days ago and earlier, of which every
// 50th was left running.
const oldSlots = `
	INSERT INTO leader_slot (job_name, slot, state, attempt, token, holder, started_at, finished_at)
	SELECT $1, clock_timestamp() - interval '100 days' - n * interval '1 hour',
	       CASE n % 50 WHEN 1 THEN 'running' ELSE 'done' END, 1, 0, 'gone', clock_timestamp(),
	       CASE n % 50 WHEN 1 THEN NULL
	                   ELSE clock_timestamp() - interval '100 days' - n * interval '1 hour' END
	FROM generate_series(0, 249) AS n`

func TestScheduleClearsOldSlotsAwayAfterEachRun(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		mustExec(t, pool, oldSlots, job)
		done(t, pool, job, databaseNow(t, pool), "done", 1)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var left []int
		policy := schedule.Policy{CatchUp: schedule.CatchUpAll, Keep: 24 * time.Hour}
		work := func(context.Context, *schedule.Slot) error {
			left = append(left, scan[int](t, pool, `SELECT count(*) FROM leader_slot
				WHERE job_name = $1 AND slot < clock_timestamp() - interval '1 hour'`, job))
			if len(left) == 5 {
				cancel()
			}
			return nil
		}
		e := slotElector(t, pool, leader.Config{})
		err := e.Scheduler.Run(ctx, job, every(50*time.Millisecond), policy, work)
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		// Nothing runs any more, so the five that were left running are abandoned first. They were
		// decided just now, and are kept for a while.
		if want := []int{250, 5, 5, 5, 5}; !slices.Equal(left, want) {
			t.Errorf("old slots left at each run: %d, want %d", left, want)
		}
	})
}

// It runs after each slot, so it must not read what it does not delete: a job that comes every
// minute has 130,000 slots on record.
func TestLookingForOldSlotsReadsNoOthers(t *testing.T) {
	pool := pgtest.Open(t, pgtest.Drivers[0], pgtest.NewURL(t))
	mustExec(t, pool, `
		INSERT INTO leader_slot (job_name, slot, state, attempt, token, holder, started_at, finished_at)
		SELECT $1, clock_timestamp() - n * interval '1 minute', 'done', 1, 1, 'gone',
		       clock_timestamp(), clock_timestamp()
		FROM generate_series(1, 20000) AS n`, job)
	mustExec(t, pool, `VACUUM ANALYZE leader_slot`)
	conn, err := pool.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	read := func() int64 {
		tx, err := conn.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		arg := db.PruneSlotsParams{JobName: job, KeepSeconds: 90 * 24 * 60 * 60, MaxRows: 100}
		deleted, err := db.New(tx).PruneSlots(t.Context(), arg)
		if err != nil || deleted != 0 {
			t.Fatalf("PruneSlots = %d, %v; want nothing deleted", deleted, err)
		}
		return scan[int64](t, tx, `SELECT coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables
			WHERE relname = 'leader_slot'`)
	}
	if n := read(); n > 10 {
		t.Errorf("%d rows were read, and none is old", n)
	}
}

package contract_test

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/internal/pgtest"
)

// A slot is begun and finished by the rules of queries/slot.sql, whatever state it is in.
func TestSlotIsBegunAndFinishedByTheRules(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		q := db.New(pool)
		e := newElector(t, pool, slow)
		resign(t, acquire(t, e, job))
		term := acquire(t, e, job) // of token 2
		hour := databaseNow(t, pool).Truncate(time.Hour)
		slots := 0
		// slot makes one that was started once under the token, or has no row.
		slot := func(state string, token int64) time.Time {
			slots++
			at := hour.Add(-time.Duration(slots) * time.Hour)
			if state != "" {
				mustExec(t, pool, `
					INSERT INTO leader_slot (job_name, slot, state, attempt, token, holder, started_at)
					VALUES ($1, $2, $3, 1, $4, $5, $2)`, job, at, state, token, e.Holder())
			}
			return at
		}
		claim := func(at time.Time, change func(*db.ClaimSlotParams)) (db.ClaimSlotRow, error) {
			arg := db.ClaimSlotParams{
				JobName: job, Holder: e.Holder(), Token: term.Token(), Slot: at, LastAttempt: 1, MaxAttempts: 3,
			}
			change(&arg)
			return q.ClaimSlot(t.Context(), arg)
		}
		same := func(*db.ClaimSlotParams) {}
		once := func(arg *db.ClaimSlotParams) { arg.MaxAttempts = 1 }
		repeat := func(arg *db.ClaimSlotParams) { arg.RepeatFailed = true }
		late := func(arg *db.ClaimSlotParams) { arg.LastAttempt, arg.RepeatFailed = 0, true }
		unseen := func(arg *db.ClaimSlotParams) { arg.LastAttempt, arg.MaxAttempts = 2, 9 }
		for _, c := range []struct {
			state   string
			token   int64
			change  func(*db.ClaimSlotParams)
			attempt int32 // that begins; 0 for none
		}{
			{"", 0, late, 1}, // not late at all
			{"running", 1, same, 2},
			{"running", 1, once, 0},
			{"running", 2, late, 1}, // asked again after a lost answer
			{"done", 1, repeat, 0},
			{"missed", 1, repeat, 0},
			{"failed", 1, same, 0},
			{"failed", 1, repeat, 2},
			{"abandoned", 1, same, 2},
			{"abandoned", 1, once, 0},
			{"abandoned", 2, same, 0}, // by this very term
			{"requested", 1, once, 2},
			{"requested", 2, once, 2},

			// What arrives after its own retry succeeded, and the first attempt has ended.
			{"running", 1, late, 0},
			{"done", 2, late, 0},
			{"failed", 2, late, 0},
			{"abandoned", 1, late, 0},
			{"requested", 2, late, 0},

			// What knows of an attempt that the record has not seen.
			{"running", 2, unseen, 0},
			{"requested", 2, unseen, 0},
		} {
			what := fmt.Sprintf("%q under token %d", c.state, c.token)
			at := slot(c.state, c.token)
			row, err := claim(at, c.change)
			right := row.Claimed == (c.attempt > 0)
			if row.Claimed {
				right = right && row.State == "running" && row.Attempt == c.attempt && row.Token == 2
			}
			if err != nil || !right {
				t.Errorf("%s: claimed %+v, %v; want attempt %d", what, row, err, c.attempt)
			}
		}
		for what, change := range map[string]func(*db.ClaimSlotParams){
			"under the token of another term": func(arg *db.ClaimSlotParams) { arg.Token = 1 },
			"by another holder":               func(arg *db.ClaimSlotParams) { arg.Holder = "other" },
			"before its time": func(arg *db.ClaimSlotParams) {
				arg.Slot = hour.Add(2 * time.Hour)
			},
		} {
			if row, err := claim(slot("", 0), change); !errors.Is(err, sql.ErrNoRows) {
				t.Errorf("%s: claimed %+v, %v", what, row, err)
			}
		}
		// Finishing and giving back mean exactly the attempt that runs.
		end := func(at time.Time, change func(*db.FinishSlotParams)) (finished, givenBack int64) {
			arg := db.FinishSlotParams{
				State: "done", JobName: job, Slot: at, Holder: e.Holder(), Token: term.Token(), Attempt: 1,
			}
			change(&arg)
			givenBack, err := q.GiveBackSlot(t.Context(), db.GiveBackSlotParams{
				JobName: arg.JobName, Slot: arg.Slot, Holder: arg.Holder, Token: arg.Token,
				Attempt: arg.Attempt + 1, Error: "of another attempt",
			})
			if err != nil {
				t.Fatal(err)
			}
			if finished, err = q.FinishSlot(t.Context(), arg); err != nil {
				t.Fatal(err)
			}
			return finished, givenBack
		}
		for what, change := range map[string]func(*db.FinishSlotParams){
			"under another token": func(arg *db.FinishSlotParams) { arg.Token = 1 },
			"by another holder":   func(arg *db.FinishSlotParams) { arg.Holder = "other" },
			"of another job":      func(arg *db.FinishSlotParams) { arg.JobName = "other" },
			"of another attempt":  func(arg *db.FinishSlotParams) { arg.Attempt = 2 },
		} {
			at := slot("running", 2)
			if finished, _ := end(at, change); finished != 0 {
				t.Errorf("finished %s", what)
			}
		}
		for _, state := range []string{"", "done", "failed", "abandoned", "missed", "requested"} {
			if finished, _ := end(slot(state, 2), func(*db.FinishSlotParams) {}); finished != 0 {
				t.Errorf("finished what was %q", state)
			}
		}
		for attempt, want := range []int64{0, 1, 0} { // that a request means; the slot has had one
			request := db.RequestSlotParams{
				JobName: job, Slot: slot("done", 2), Attempt: int32(attempt), Error: "requested",
			}
			if n, err := q.RequestSlot(t.Context(), request); n != want || err != nil {
				t.Errorf("a request after attempt %d changed %d rows, %v; want %d", attempt, n, err, want)
			}
		}
		at := slot("running", 2)
		resign(t, term)
		if row, err := claim(slot("", 0), same); !errors.Is(err, sql.ErrNoRows) {
			t.Errorf("after the term: claimed %+v, %v", row, err)
		}
		// What was done was done under the term.
		finished, givenBack := end(at, func(*db.FinishSlotParams) {})
		if finished != 1 || givenBack != 0 {
			t.Errorf("the end of what was begun changed %d rows, giving another attempt back %d",
				finished, givenBack)
		}
	})
}

// The term that gave a slot back claims it again when that is requested.
func TestLateStatementOfAnAttemptGivenBackDoesNotConcernTheRequestedRun(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		q := db.New(pool)
		e := newElector(t, pool, slow)
		term := acquire(t, e, job)
		at := databaseNow(t, pool).Truncate(time.Hour)
		claim := func(last int32) bool {
			row, err := q.ClaimSlot(t.Context(), db.ClaimSlotParams{
				JobName: job, Holder: e.Holder(), Token: term.Token(), Slot: at,
				LastAttempt: last, MaxAttempts: 1,
			})
			if err != nil {
				t.Fatal(err)
			}
			return row.Claimed
		}
		giveBack := func() int64 {
			n, err := q.GiveBackSlot(t.Context(), db.GiveBackSlotParams{
				JobName: job, Holder: e.Holder(), Token: term.Token(), Slot: at, Attempt: 1,
			})
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		if !claim(0) || giveBack() != 1 {
			t.Fatal("the slot was not claimed and given back")
		}
		n, err := q.RequestSlot(t.Context(), db.RequestSlotParams{JobName: job, Slot: at})
		if n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if claim(0) {
			t.Error("the late claim has started the requested run")
		}
		row, err := q.ReadSlot(t.Context(), db.ReadSlotParams{JobName: job, Slot: at})
		if err != nil || row.State != "requested" || !claim(row.Attempt) {
			t.Fatalf("the requested slot is %+v, %v, and could not be claimed", row, err)
		}
		if giveBack() != 0 {
			t.Error("the late give-back has undone the requested run")
		}

		// Of a requested run the request is kept, and none of its statements may concern the next.
		if n, err := q.FinishSlot(t.Context(), db.FinishSlotParams{
			JobName: job, Holder: e.Holder(), Token: term.Token(), Slot: at, Attempt: 2, State: "done",
		}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if n, err := q.RequestSlot(t.Context(), db.RequestSlotParams{
			JobName: job, Slot: at, Attempt: 2, Error: "requested by somebody",
		}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		keep := db.GiveBackSlotParams{
			JobName: job, Holder: e.Holder(), Token: term.Token(), Slot: at, Attempt: 3, KeepRequest: true,
		}
		for range 2 { // it is asked again
			if !claim(2) {
				t.Fatal("the requested slot was not claimed")
			}
		}
		for _, want := range []int64{1, 0} {
			if n, err := q.GiveBackSlot(t.Context(), keep); n != want || err != nil {
				t.Errorf("giving the requested run back changed %d rows, %v; want %d", n, err, want)
			}
		}
		rows, err := q.ListSlots(t.Context(), db.ListSlotsParams{JobName: job, MaxRows: 1})
		if err != nil || rows[0].State != "requested" || rows[0].Error != "requested by somebody" {
			t.Errorf("%+v, %v; want the request", rows, err)
		}
		if claim(2) || !claim(3) {
			t.Error("want the late claim refused and the next one granted")
		}
		if n, err := q.GiveBackSlot(t.Context(), keep); n != 0 || err != nil {
			t.Errorf("the late give-back changed %d rows, %v", n, err)
		}
	})
}

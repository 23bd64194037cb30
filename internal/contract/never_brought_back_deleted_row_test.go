package contract_test

import (
	"database/sql"
	"testing"

	"github.com/pgleader/pgleader/db"
)

// Nobody should delete a lease row: its token starts again, at 1 or after the last one that the
// next leader's process had, so that a fence in another table refuses the new leaders until their
// tokens have grown past the old ones. But even then two never lead at once.
func TestDeletedRowEndsTermIsNeverRecreatedByRenewalAndStartsTokenAgain(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool, admin := openPair(t, driver, url)
		a, b := newElector(t, pool, quick), newElector(t, pool, slow)
		for range 4 {
			resign(t, acquire(t, a, job))
		}
		known := int64(0)                            // the last token of b's
		for _, others := range []bool{false, true} { // a term that is renewed alone, and one of several
			old := acquire(t, a, job)
			if others {
				acquire(t, a, "another job")
			}
			eventuallyRenewed(t, admin, job, 1)
			mustExec(t, admin, `DELETE FROM leader_lease WHERE job_name = $1`, job)
			endsWithLoss(t, old)
			if scan[bool](t, admin, `SELECT count(*) > 0 FROM leader_lease WHERE job_name = $1`, job) {
				t.Fatal("a renewal created the row again")
			}
			next := acquire(t, b, job)
			if known++; next.Token() != known {
				t.Errorf("the token of a new row is %d, want %d", next.Token(), known)
			}
			checkDelayedRenewalHasNoEffect(t, admin, a.Holder(), old.Token())
			resign(t, next)
			checkDelayedRenewalHasNoEffect(t, admin, a.Holder(), old.Token())
			if err := old.Resign(); err != nil {
				t.Errorf("resigning a term whose row was deleted: %v", err)
			}
			resign(t, acquire(t, a, job))
			resign(t, acquire(t, a, job))
			if token := tokenOf(t, admin, job); token != known+2 {
				t.Errorf("three terms after the deletion the token is %d, want %d", token, known+2)
			}
		}
	})
}

// checkDelayedRenewalHasNoEffect lets a renewal arrive that was sent before the row was deleted.
func checkDelayedRenewalHasNoEffect(t *testing.T, admin *sql.DB, holder string, token int64) {
	t.Helper()
	q, before := db.New(admin), row(t, admin)
	n, err := q.RenewLease(t.Context(), renewalOf(holder, job, token, 60))
	if err != nil || n != 0 {
		t.Errorf("a delayed renewal = %d, %v; want 0 rows", n, err)
	}
	n, err = q.ReleaseLease(t.Context(), releaseOf(holder, job, token))
	if err != nil || n != 0 {
		t.Errorf("a delayed release = %d, %v; want 0 rows", n, err)
	}
	if after := row(t, admin); after != before {
		t.Errorf("the row was %s and is %s", before, after)
	}
}

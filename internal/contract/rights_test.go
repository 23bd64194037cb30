package contract_test

import (
	"context"
	"database/sql"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/migrations"
	"github.com/pgleader/pgleader/schedule"
)

// The rights are taken from docs/operations.md, so that what an operator grants is what was tested:
// they are enough for everything, and none of them can be left out.
func TestDocumentedRightsAreEnoughAndNeeded(t *testing.T) {
	t.Parallel()
	grants := documentedGrants(t)
	rights := regexp.MustCompile(`SELECT|INSERT|UPDATE|DELETE|EXECUTE`)
	forEachDriver(t, func(t *testing.T, driver, url string) {
		admin := pgtest.Open(t, driver, direct(url))
		// As where the defaults are stricter.
		mustExec(t, admin, `REVOKE ALL ON FUNCTION leader_token_floor FROM PUBLIC`)
		asWorker := asNewRole(t, admin, url)
		role := userOf(t, asWorker)
		for _, grant := range grants {
			mustExec(t, admin, strings.ReplaceAll(grant, "app_worker", role))
		}
		pool := pgtest.Open(t, driver, asWorker)
		if err := everything(t, pool, "first"); err != nil {
			t.Errorf("with the documented rights: %v", err)
		}
		for _, grant := range grants {
			for _, right := range rights.FindAllString(grant, -1) {
				object := regexp.MustCompile(` ON (.+) TO `).FindStringSubmatch(grant)[1]
				mustExec(t, admin, "REVOKE "+right+" ON "+object+" FROM "+role)
				err := everything(t, pool, "without "+right+" on "+object)
				if err == nil || sqlState(err) != "42501" {
					t.Errorf("without %s on %s: %v, want SQLSTATE 42501", right, object, err)
				}
				mustExec(t, admin, "GRANT "+right+" ON "+object+" TO "+role)
			}
		}
	})
}

func documentedGrants(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	grants := regexp.MustCompile(`GRANT [^;]* TO app_worker`).FindAllString(string(text), -1)
	if len(grants) < 2 {
		t.Fatalf("docs/operations.md has %d grants to app_worker", len(grants))
	}
	return grants
}

// everything is what the library asks the database for, up to the first failure.
func everything(t *testing.T, pool *sql.DB, job string) error {
	t.Helper()
	e, rival := slotElector(t, pool, quick), newElector(t, pool, quick)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := migrations.Up(ctx, pool); err != nil {
		return err
	}
	term, err := e.Campaign(ctx, job)
	if err != nil {
		return err
	}
	defer term.Resign()
	if _, _, err := rival.TryAcquire(ctx, job); err != nil {
		return err
	}
	if err := everythingOfSlots(ctx, e, job+" slots"); err != nil {
		return err
	}
	if _, err := e.Leases(ctx); err != nil {
		return err
	}
	if _, err := rival.Dismiss(ctx, job); err != nil {
		return err
	}
	return nil
}

func everythingOfSlots(ctx context.Context, e slotHost, job string) error {
	slot := time.Now().Add(-time.Minute)
	work := func(context.Context, *schedule.Slot) error { return nil }
	if _, err := e.RunSlot(ctx, job, slot, work); err != nil {
		return err
	}
	due := func() error {
		_, err := e.RunDue(ctx, job, every(24*time.Hour), schedule.Policy{Keep: time.Minute}, work)
		return err
	}
	if err := due(); err != nil {
		return err
	}
	if err := e.Rerun(ctx, job, slot); err != nil {
		return err
	}
	if err := due(); err != nil {
		return err
	}
	_, err := e.History(ctx, job, 10)
	return err
}

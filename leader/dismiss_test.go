package leader

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/internal/pgfake"
)

// A service dismisses the leader of a job for which it is a candidate itself. The old leader's
// network is silent, so that it learns nothing of it.
func TestCandidateThatDismissesTheLeaderWaitsForItsLeaseToExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		old, candidate := start(t, tb, Config{}), start(t, tb, Config{})
		began := time.Now()
		term := old.mustLead(t, "report")
		old.hangForEver()
		elected := make(chan *Term, 1)
		go func() {
			next, err := candidate.Campaign(context.Background(), "report")
			if err != nil {
				t.Error(err)
			}
			elected <- next
		}()
		time.Sleep(time.Second)
		if _, err := candidate.Dismiss(t.Context(), "report"); err != nil {
			t.Fatal(err)
		}
		leases, err := candidate.Leases(t.Context())
		if err != nil || len(leases) != 1 || !leases[0].Live() || !leases[0].Dismissed() {
			t.Errorf("%+v, %v; want a live lease that was dismissed", leases, err)
		}
		next := <-elected
		if leases, err = candidate.Leases(t.Context()); err != nil || leases[0].Dismissed() {
			t.Errorf("%+v, %v; want the candidate's lease", leases, err)
		}
		if term.Context().Err() == nil {
			t.Errorf("the candidate leads after %v, the old leader believes in its term until %v",
				time.Since(began), term.Until())
		}
		if led := time.Since(began); led < 15*time.Second || led > 17*time.Second {
			t.Errorf("the candidate leads after %v, want when the lease of 15 s has expired", led)
		}
		mustResign(t, next)
	})
}

// The answer stays away for so long that the leader's lease expires, and somebody else is elected.
func TestDismissalWhoseAnswerIsLostSparesTheSuccessor(t *testing.T) {
	for name, trouble := range map[string]pgfake.Trouble{
		"carried out":     {Slow: time.Minute, Deaf: true},
		"not carried out": {Hangs: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := pgfake.NewTable()
				operator := start(t, tb, Config{})
				tb.Put("report", "stuck", 2*time.Second)
				operator.path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
					if s.Kind == pgfake.KindDismiss && s.Nth == 1 {
						return trouble
					}
					return pgfake.Trouble{}
				})
				time.AfterFunc(3*time.Second, func() { tb.Put("report", "successor", time.Hour) })
				was, err := operator.Dismiss(t.Context(), "report")
				if err != nil || was.Holder != "stuck" {
					t.Errorf("Dismiss = %+v, %v; want the lease of the stuck leader", was, err)
				}
				leases, err := operator.Leases(t.Context())
				if err != nil || leases[0].Holder != "successor" {
					t.Errorf("%+v, %v; want the successor's lease", leases, err)
				}
				time.Sleep(time.Minute)
			})
		})
	}
}

// A trigger, like a row security policy, can make an UPDATE change nothing without an error.
func TestDismissalThatChangesNothingEnds(t *testing.T) {
	onPostgres(t, func(t *testing.T, pool *sql.DB) {
		e, err := New(pool, Config{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		term, ok, err := e.TryAcquire(t.Context(), "report")
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		defer mustResign(t, term)
		const keep = `
			CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
			CREATE TRIGGER keep BEFORE UPDATE OF holder ON leader_lease
			FOR EACH ROW EXECUTE FUNCTION keep()`
		if _, err := pool.ExecContext(t.Context(), keep); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err = e.Dismiss(ctx, "report")
		if !errors.Is(err, errKept) {
			t.Errorf("Dismiss = %v, want errKept", err)
		}
	})
}

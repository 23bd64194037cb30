package contract_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

// Leaders are cut off while the clock is set back by any time, or forward by less than the margin.
// Each knows that it is over before the next one begins; and the next one does not wait until the
// clock has caught up.
func TestLeadersFollowOneAnotherWhileTheServersClockIsSet(t *testing.T) {
	t.Parallel()
	onServerWithClock(t, func(t *testing.T, driver, url string, set func(time.Duration)) {
		type worker struct {
			proxy *pgtest.Proxy
			*leader.Elector
		}
		var before *leader.Term
		var workers []worker
		for range 2 {
			proxy := pgtest.NewProxy(t, url)
			e := newElector(t, pgtest.Open(t, driver, proxy.URL), leader.Config{
				TTL: 2 * time.Second, RetryEvery: 50 * time.Millisecond,
				OnEvent: func(event leader.Event) {
					if event.Kind == leader.EventElected && before != nil && before.Context().Err() == nil {
						t.Error("a leader is elected beside one that takes itself for the leader")
					}
				},
			})
			workers = append(workers, worker{proxy, e})
		}
		ahead := time.Duration(0)
		before = acquire(t, workers[0].Elector, job)
		for round, step := range []time.Duration{
			-time.Hour, 60 * time.Millisecond, -time.Second, -24 * time.Hour, -3 * time.Second,
		} {
			leads, next := workers[round%2], workers[(round+1)%2]
			elected := campaigning(t, next.Elector, job)
			leads.proxy.Freeze()
			ahead += step
			set(ahead)
			endsWithLoss(t, before)
			term := receive(t, "the next election", elected)
			if term.Token() != before.Token()+1 {
				t.Errorf("token %d after %d", term.Token(), before.Token())
			}
			leads.proxy.Thaw()
			eventually(t, "the leader before is refused", func() bool {
				tx, err := pgtest.Open(t, driver, leads.proxy.URL).BeginTx(t.Context(), nil)
				if err != nil {
					return false
				}
				defer tx.Rollback()
				return errors.Is(before.Guard(t.Context(), tx), leader.ErrLost)
			})
			before = term
		}
		resign(t, before)
	})
}

// The limit: what is set forward by more than the margin ends leases whose holders still believe in
// them, until their next renewal or guard.
func TestServersClockThatIsSetFarForwardEndsLeasesEarly(t *testing.T) {
	t.Parallel()
	onServerWithClock(t, func(t *testing.T, driver, url string, set func(time.Duration)) {
		pool := pgtest.Open(t, driver, url)
		unknowing := acquire(t, newElector(t, pool, slow), job)
		renews := acquire(t, newElector(t, pool, quick), "another job")
		refused(t, newElector(t, pool, slow), job)
		set(2 * time.Hour)
		next := acquire(t, newElector(t, pool, slow), job)
		stillLeads(t, unknowing)
		if err := unknowing.Guard(t.Context(), begin(t, pool, 0)); !errors.Is(err, leader.ErrLost) {
			t.Errorf("Guard = %v, want ErrLost", err)
		}
		if next.Token() != unknowing.Token()+1 {
			t.Errorf("token %d after %d", next.Token(), unknowing.Token())
		}
		endsWithLoss(t, renews)
	})
}

// onServerWithClock runs a test over both drivers, each on a server of its own whose clock can be
// set.
func onServerWithClock(
	t *testing.T, test func(t *testing.T, driver, url string, set func(ahead time.Duration)),
) {
	t.Helper()
	for _, driver := range pgtest.Drivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			server, clock := pgtest.PrivateWithClock(t)
			url, err := server.CreateDatabase(t.Context(), true)
			if err != nil {
				t.Fatal(err)
			}
			admin := pgtest.Open(t, driver, url)
			test(t, driver, url, func(ahead time.Duration) {
				t.Helper()
				clock.Set(t, ahead)
				if d := time.Until(databaseNow(t, admin)) - ahead; d.Abs() > 10*time.Second {
					t.Fatalf("the server's clock is %v off what it was set to", d)
				}
			})
		})
	}
}

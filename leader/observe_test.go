package leader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/internal/pgfake"
)

type sight struct {
	lease Lease
	err   error
	after time.Duration
}

func (s sight) String() string {
	return fmt.Sprintf("after %v: token %d of %q with %v left, error %v",
		s.after, s.lease.Token, s.lease.Holder, s.lease.Left, s.err)
}

// observe collects what Observe yields until ctx ends, or the given number of sights.
func (p *process) observe(ctx context.Context, job string, most int) <-chan []sight {
	result := make(chan []sight, 1)
	began := time.Now()
	go func() {
		var seen []sight
		for lease, err := range p.Observe(ctx, job) {
			seen = append(seen, sight{lease, err, time.Since(began)})
			if len(seen) == most {
				break
			}
		}
		result <- seen
	}()
	return result
}

func TestObserveYieldsTheFirstLookAndEachChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p, leader := start(t, tb, Config{}), start(t, tb, Config{})
		ctx, cancel := context.WithCancel(t.Context())
		result := p.observe(ctx, "report", 0)
		time.Sleep(time.Minute)
		term := leader.mustLead(t, "report") // at 1 min
		time.Sleep(time.Minute)              // renewals are no change
		mustResign(t, term)                  // at 2 min
		time.Sleep(time.Minute)
		tb.Put("report", "first", time.Hour) // at 3 min
		time.Sleep(time.Minute)
		tb.Put("report", "short", 10*time.Second) // at 4 min, and it expires
		time.Sleep(time.Minute)
		cancel()

		seen := <-result
		want := []struct {
			holder string
			token  int64
			live   bool
			at     time.Duration
		}{
			{"", 0, false, 0},
			{leader.Holder(), 1, true, time.Minute},
			{leader.Holder(), 1, false, 2 * time.Minute},
			{"first", 2, true, 3 * time.Minute},
			{"short", 3, true, 4 * time.Minute},
			{"short", 3, false, 4*time.Minute + 10*time.Second},
		}
		if len(seen) != len(want)+1 {
			t.Fatalf("saw %v", seen)
		}
		for i, w := range want {
			got := seen[i]
			if got.err != nil || got.lease.Job != "report" || got.lease.Holder != w.holder ||
				got.lease.Token != w.token || got.lease.Live() != w.live {
				t.Errorf("sight %d is %+v, want %+v", i, got, w)
			}
			if late := got.after - w.at; late < 0 || late > p.retryEvery*5/4 {
				t.Errorf("sight %d came %v after the change", i, late)
			}
		}
		if late := seen[5].after - want[5].at; late > maxSpread {
			t.Errorf("the expiry was seen %v late, though it was known", late)
		}
		if last := seen[len(want)]; !errors.Is(last.err, context.Canceled) {
			t.Errorf("it ended with %+v, want context.Canceled", last)
		}
	})
}

func TestObserveYieldsOneErrorForARowOfFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		tb.Put("report", "rival", time.Hour)
		p := start(t, tb, Config{})
		ctx, cancel := context.WithCancel(t.Context())
		result := p.observe(ctx, "report", 0)
		for range 2 {
			time.Sleep(10 * time.Second)
			p.path.Suffer(pgfake.Always(pgfake.Trouble{Fails: pgfake.ErrReset}))
			time.Sleep(10 * time.Second)
			p.path.Suffer(nil)
		}
		time.Sleep(10 * time.Second)
		cancel()
		seen := <-result
		if len(seen) != 4 || seen[0].err != nil ||
			!errors.Is(seen[1].err, pgfake.ErrReset) || !errors.Is(seen[2].err, pgfake.ErrReset) {
			t.Errorf("saw %v, want the lease, an error for each row of failures, and the end", seen)
		}
	})
}

func TestObserveEndsWithWhatCannotBeMended(t *testing.T) {
	for name, first := range map[string]pgfake.Trouble{
		"at once":              {},
		"after other errors":   {Fails: pgfake.ErrReset},
		"after a server error": {Fails: pgfake.ServerError("25006")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t, pgfake.NewTable(), Config{})
				p.path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
					if s.Nth == 1 && first != (pgfake.Trouble{}) {
						return first
					}
					return pgfake.Trouble{Fails: pgfake.ServerError("42P01")}
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				seen := <-p.observe(ctx, "report", 0)
				if len(seen) == 0 || !errors.Is(seen[len(seen)-1].err, ErrNotMigrated) {
					t.Errorf("saw %v, want ErrNotMigrated at the end", seen)
				}
			})
		})
	}
}

func TestObserveStopsAskingWhenItsCallerBreaksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		tb.Put("report", "rival", time.Hour)
		p := start(t, tb, Config{})
		began := time.Now()
		if seen := <-p.observe(t.Context(), "report", 1); len(seen) != 1 || !seen[0].lease.Live() {
			t.Errorf("saw %v", seen)
		}
		after(t, began, 0, "seen")
		asked := len(p.path.Asked(began))
		time.Sleep(time.Hour)
		if n := len(p.path.Asked(began)) - asked; n > 0 {
			t.Errorf("%d statements after the break", n)
		}
	})
}

func TestObserversAndCandidatesShareTheirLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p := start(t, tb, Config{})
		jobs := jobNames(10)
		for _, job := range jobs {
			tb.Put(job, "rival", time.Hour)
		}
		stop := p.wait(t, jobs...)
		ctx, cancel := context.WithCancel(t.Context())
		var results []<-chan []sight
		for _, job := range jobs {
			results = append(results, p.observe(ctx, job, 0))
		}
		time.Sleep(time.Second)
		began := time.Now()
		time.Sleep(time.Minute)
		if n, most := len(p.path.Asked(began)), int(time.Minute/p.retryEvery)+1; n > most {
			t.Errorf("%d statements in a minute, want at most %d", n, most)
		}
		cancel()
		for _, result := range results {
			if seen := <-result; len(seen) != 2 {
				t.Errorf("saw %v", seen)
			}
		}
		stop()
	})
}

func TestSlowObserverSeesTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		tb.Put("report", "first", time.Hour)
		p := start(t, tb, Config{})
		var holders []string
		for lease := range p.Observe(t.Context(), "report") {
			if holders = append(holders, lease.Holder); len(holders) == 2 {
				break
			}
			for _, holder := range []string{"second", "third"} {
				tb.Put("report", holder, time.Hour)
				time.Sleep(10 * time.Second)
			}
		}
		if len(holders) != 2 || holders[1] != "third" {
			t.Errorf("saw %v, want the first and the newest", holders)
		}
	})
}

func TestLeasesListsEveryLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		tb.Put("b", "dead", time.Second)
		tb.Put("a", "rival", time.Hour)
		time.Sleep(time.Minute)
		p := start(t, tb, Config{})
		leases, err := p.Leases(t.Context())
		if err != nil || len(leases) != 2 {
			t.Fatalf("Leases = %+v, %v", leases, err)
		}
		a, b := leases[0], leases[1]
		if a.Job != "a" || a.Holder != "rival" || a.Token != 1 || !a.Live() ||
			a.Left != 59*time.Minute || a.RenewedAt.IsZero() {
			t.Errorf("%+v", a)
		}
		if b.Job != "b" || b.Live() || b.Left != -59*time.Second || !b.ExpiresAt.Before(time.Now()) {
			t.Errorf("%+v", b)
		}
		p.path.Suffer(pgfake.Always(pgfake.Trouble{Fails: pgfake.ServerError("42P01")}))
		if _, err := p.Leases(t.Context()); !errors.Is(err, ErrNotMigrated) {
			t.Errorf("Leases = %v, want ErrNotMigrated", err)
		}
		p.path.Suffer(pgfake.Always(pgfake.Trouble{Hangs: true}))
		began := time.Now()
		if _, err := p.Leases(t.Context()); err == nil {
			t.Error("Leases = nil from a database that does not answer")
		}
		after(t, began, p.callLimit, "Leases returned")
	})
}

// In a database whose encoding lacks characters of one name, a look for it together with others
// fails.
func TestNameThatTheDatabaseCannotStoreDisturbsNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const odd = "日報"
		tb := pgfake.NewTable()
		tb.Put("report", "rival", time.Hour)
		p := start(t, tb, Config{})
		p.path.Suffer(func(s pgfake.Statement) pgfake.Trouble {
			if slices.Contains(s.Jobs, odd) {
				return pgfake.Trouble{Fails: pgfake.ServerError("22P05")}
			}
			return pgfake.Trouble{}
		})
		defer p.wait(t, "report")()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		beside := p.observe(ctx, "report", 0)
		seen := <-p.observe(t.Context(), odd, 0)
		if len(seen) != 1 || !errors.Is(seen[0].err, ErrEncoding) {
			t.Errorf("saw %v, want ErrEncoding", seen)
		}
		tb.Free("report")
		time.Sleep(p.retryEvery * 5 / 4)
		if row := tb.Row("report"); row.Holder != p.Holder() {
			t.Errorf("the row is %+v, want the candidate elected", row)
		}
		cancel()
		for _, sight := range <-beside {
			if errors.Is(sight.err, ErrEncoding) {
				t.Errorf("who observes another job saw %v", sight)
			}
		}
	})
}

package contract_test

import (
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

// An hour of any time zone is the same instant in every other.
func TestSessionTimeZoneChangesNoInstant(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		tokyo := pgtest.Open(t, driver, withParam(t, url, "timezone", "Asia/Tokyo"))
		york := pgtest.Open(t, driver, withParam(t, url, "timezone", "America/New_York"))
		if zone := scan[string](t, tokyo, `SHOW timezone`); zone != "Asia/Tokyo" {
			t.Fatalf("the session's time zone is %s", zone)
		}
		a, b := newElector(t, tokyo, slow), newElector(t, york, slow)
		acquire(t, a, job)
		refused(t, b, job)
		truth := scan[float64](t, york, `SELECT extract(epoch FROM expires_at)::float8 FROM leader_lease`)
		for _, e := range []*leader.Elector{a, b} {
			leases, err := e.Leases(t.Context())
			if err != nil || len(leases) != 1 {
				t.Fatalf("Leases = %v, %v", leases, err)
			}
			l := leases[0]
			if got := float64(l.ExpiresAt.UnixMicro()) / 1e6; got < truth-1e-3 || got > truth+1e-3 {
				t.Errorf("the lease expires at %f, want %f", got, truth)
			}
			if l.Left < 59*time.Minute || l.Left > time.Hour || l.ExpiresAt.Sub(l.AcquiredAt) < time.Hour {
				t.Errorf("the lease is %+v, want an hour", l)
			}
		}
		expire(t, tokyo, job)
		acquire(t, b, job)
	})
}

func TestProcessTimeZoneChangesNoInstant(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		acquire(t, newElector(t, pool, slow), job)
		truth := scan[string](t, pool, `SELECT concat_ws(' ',
			(extract(epoch FROM acquired_at) * 1000000)::bigint,
			(extract(epoch FROM renewed_at) * 1000000)::bigint,
			(extract(epoch FROM expires_at) * 1000000)::bigint) FROM leader_lease`)
		tokyo := withParam(t, url, "timezone", "Asia/Tokyo")
		p := start(t, order{Program: "leases", Driver: driver, URL: tokyo}, "TZ=America/New_York")
		if got, want := p.says(t, "lease"), truth+" America/New_York"; got != want {
			t.Errorf("the lease's instants are %s, want %s", got, want)
		}
		p.exits(t)
	})
}

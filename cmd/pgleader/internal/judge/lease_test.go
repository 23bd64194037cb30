package judge

import (
	"testing"
	"time"

	"github.com/pgleader/pgleader/leader"
)

// leaseAt is a lease of token 7 as the database gave it at an instant, with a TTL of 15 s.
func leaseAt(now time.Time, holder string, renewed time.Duration) leader.Lease {
	l := leader.Lease{
		Job: "report", Holder: holder, Token: 7,
		AcquiredAt: now.Add(-time.Hour), RenewedAt: now.Add(-renewed),
	}
	l.ExpiresAt = l.RenewedAt.Add(15 * time.Second)
	l.Left = l.ExpiresAt.Sub(now)
	return l
}

func TestLeaseSaysWhetherItsJobIsLed(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC)
	for _, row := range []struct {
		lease      leader.Lease
		want       State
		leadership string
	}{
		{leader.Lease{Job: "report"}, NeverLed, "nobody has ever led it"},
		{leaseAt(now, "web-1", 5*time.Second), Led, "web-1 has led it for 1h0m0s"},
		{
			leaseAt(now, "web-1", time.Minute), NoLeader,
			"nobody has led it for 45s; the last leader was web-1",
		},
		{
			leaseAt(now, "operator:ada@ops:x:dismissed", 5*time.Second), Dismissed,
			"nobody leads it: operator:ada@ops:x:dismissed took it away; it is free in 10s",
		},
		{
			leaseAt(now, "operator", 5*time.Second), Dismissed, // by hand, with SQL
			"nobody leads it: operator took it away; it is free in 10s",
		},
	} {
		if got := StateOf(row.lease); got != row.want || leadership(row.lease) != row.leadership {
			t.Errorf("%+v: %s, %q", row.lease, got, leadership(row.lease))
		}
	}
}

func TestLeaderIsLateWhenNoConfigurationWaitsSoLong(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC)
	for renewed, want := range map[time.Duration]bool{
		0: false, 10 * time.Second: false, 10*time.Second + 1: true, time.Minute: false, // nobody leads
	} {
		since, late := Unrenewed(leaseAt(now, "web-1", renewed))
		if since != renewed || late != want {
			t.Errorf("renewed %v ago: %v, late %v", renewed, since, late)
		}
	}
}

func TestRenewalInTheFutureMeansAClockThatWasSetBack(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC)
	for ahead, want := range map[time.Duration]bool{
		-time.Second: false, time.Second: false, time.Second + 1: true, time.Hour: true,
	} {
		lease := leaseAt(now, "web-1", -ahead)
		got, setBack := RenewedAhead(lease)
		if got != ahead || setBack != want {
			t.Errorf("%v ahead: %v, set back %v", ahead, got, setBack)
		}
		wanted := OK
		if want {
			wanted = Warning
		}
		if v := Leader(lease); v.Severity != wanted {
			t.Errorf("%v ahead: %s", ahead, v.Line())
		}
	}
}

package doctor

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/judge"
	"github.com/pgleader/pgleader/cmd/pgleader/internal/words"
	"github.com/pgleader/pgleader/leader"
)

// leases wants each to be renewed, and none to last longer than a TTL. That they cannot be read for
// want of tables or rights is the finding of other checks.
func (e *examination) leases(ctx context.Context) ([]Finding, error) {
	leases, err := e.Leases(ctx)
	if errors.Is(err, leader.ErrNotMigrated) || forbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	held := 0
	var findings []Finding
	for _, l := range leases {
		if l.Live() {
			held++
		}
		if f, remarkable := judgeLease(l); remarkable {
			findings = append(findings, f)
		}
	}
	if len(findings) == 0 {
		return only(fine("%d of %d jobs are led, and their leases renewed", held, len(leases)))
	}
	return findings, nil
}

// leaseSlack is by how much a lease may outlast the longest TTL before its expiry must be
// somebody's mistake.
const leaseSlack = time.Minute

// judgeLease says what is remarkable about a lease, if anything is.
func judgeLease(l leader.Lease) (f Finding, remarkable bool) {
	job, holder, left := words.Name(l.Job), words.Name(l.Holder), words.Span(l.Left)
	expire := "UPDATE leader_lease SET expires_at = clock_timestamp() WHERE job_name = " +
		literal(l.Job)
	since, late := judge.Unrenewed(l)
	ahead, setBack := judge.RenewedAhead(l)
	switch {
	case setBack:
		return warning("check the server's NTP. A candidate that waits frees the lease after its "+
			"TTL; if none does, make sure that the holder is gone, and: "+expire+
			" AND renewed_at > clock_timestamp()",
			"the lease of %s was last renewed %s in the future: the server's clock was set back, "+
				"or a server was promoted whose clock is behind, and nobody has renewed it since",
			job, words.Span(ahead)), true
	case l.Left > leader.MaxTTL+leaseSlack:
		return problem("make sure that its holder is gone, then let it expire: "+expire,
			"nobody else can lead %s for %s, longer than any TTL: somebody edited the row",
			job, left), true
	case judge.StateOf(l) == judge.Dismissed:
		return fine("%s took %s away; it is free in %s", holder, job, left), true
	case late:
		return warning(
			"look at the holder and its network; another candidate can lead in "+left,
			"%s leads %s and has not renewed its lease for %s", holder, job, words.Span(since)), true
	}
	return Finding{}, false
}

// literal quotes a name for SQL that is shown to be copied.
func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

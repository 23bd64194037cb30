package leader

import (
	"strings"
	"time"

	"github.com/pgleader/pgleader/db"
)

// Lease is one row of the lease table, as data: who leads a job, or led it last. It says what the
// database knew when it was asked, and grants nothing.
type Lease struct {
	Job        string
	Holder     string    // "" if the job was never led
	Token      int64     // the fencing token of the current or last term, 0 if the job was never led
	AcquiredAt time.Time // database time, like the other two
	RenewedAt  time.Time
	ExpiresAt  time.Time
	Left       time.Duration // to live when the database answered; zero or less: it is free
}

// Live reports whether nobody else could have the lease when the database answered. Its holder
// leads the job, unless it was dismissed.
func (l Lease) Live() bool { return l.Left > 0 }

// Dismissed reports whether Dismiss took the job away from the last leader. Holder is who did it;
// while the lease is live, nobody leads the job.
func (l Lease) Dismissed() bool { return strings.HasSuffix(l.Holder, dismissedSuffix) }

// dismissedSuffix cannot end the name of an elector: that is a random part of another length.
const dismissedSuffix = ":dismissed"

func leaseOf(row db.LeaderLease, timeLeft float64) Lease {
	return Lease{
		Job:        row.JobName,
		Holder:     row.Holder,
		Token:      row.Token,
		AcquiredAt: row.AcquiredAt,
		RenewedAt:  row.RenewedAt,
		ExpiresAt:  row.ExpiresAt,
		Left:       seconds(timeLeft),
	}
}

// seconds converts what Postgres calls a number of seconds. time.Duration ends at 292 years, where
// it says so.
func seconds(s float64) time.Duration {
	const limit = float64(1<<63 - 1)
	ns := s * float64(time.Second)
	switch {
	case ns >= limit:
		return 1<<63 - 1
	case ns <= -limit:
		return -1 << 63
	}
	return time.Duration(ns)
}

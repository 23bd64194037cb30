// Package judge says what the records of leases and slots mean to an operator: who leads, what
// became of a slot, and whether a monitoring system should raise the alarm. It asks nobody; all
// times are the database's.
package judge

import (
	"fmt"
	"time"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/words"
	"github.com/pgleader/pgleader/leader"
)

// A State is what a lease says of its job.
type State string

// The states of a job.
const (
	Led       State = "led"
	Dismissed State = "dismissed" // an operator took it away, and it has not expired yet
	NoLeader  State = "no leader" // released or expired
	NeverLed  State = "never led"
)

// byHand is the holder that docs/operations.md writes with SQL. It is no elector's name.
const byHand = "operator"

// StateOf judges a lease. That of a job without a row has token 0.
func StateOf(l leader.Lease) State {
	switch {
	case l.Token == 0:
		return NeverLed
	case !l.Live():
		return NoLeader
	case l.Dismissed() || l.Holder == byHand:
		return Dismissed
	}
	return Led
}

// AsOf is the database's time when it answered with the lease.
func AsOf(l leader.Lease) time.Time { return l.ExpiresAt.Add(-l.Left) }

// Unrenewed is for how long a leader has not renewed its lease. Late is true if that is longer than
// any configuration waits: a renewal is sent when 13/30 of the TTL are left, or earlier.
func Unrenewed(l leader.Lease) (since time.Duration, late bool) {
	late = StateOf(l) == Led && l.Left < l.ExpiresAt.Sub(l.RenewedAt)/3
	return AsOf(l).Sub(l.RenewedAt), late
}

// RenewedAhead is by how much the last renewal of a live lease lies in the future of the server's
// clock. SetBack is true if that is no rounding: the clock was set back. A leader that lives mends
// it by its next renewal.
func RenewedAhead(l leader.Lease) (ahead time.Duration, setBack bool) {
	ahead = l.RenewedAt.Sub(AsOf(l))
	return ahead, l.Live() && !l.Dismissed() && ahead > time.Second
}

// leadership says who leads, or since when nobody does.
func leadership(l leader.Lease) string {
	switch StateOf(l) {
	case Led:
		return fmt.Sprintf("%s has led it for %s",
			words.Name(l.Holder), words.Span(AsOf(l).Sub(l.AcquiredAt)))
	case Dismissed:
		return fmt.Sprintf("nobody leads it: %s took it away; it is free in %s",
			words.Name(l.Holder), words.Span(l.Left))
	case NoLeader:
		return fmt.Sprintf("nobody has led it for %s; the last leader was %s",
			words.Span(AsOf(l).Sub(l.ExpiresAt)), words.Name(l.Holder))
	default:
		return "nobody has ever led it"
	}
}

package schedule

import (
	"fmt"
	"time"
)

// CatchUp says what happens to slots that came due while the job was running or nobody led it.
type CatchUp string

// The ways to catch up. Slots that are not run are recorded as missed.
const (
	CatchUpLatest CatchUp = "latest" // run the latest of them
	CatchUpAll    CatchUp = "all"    // run them all, oldest first
	CatchUpSkip   CatchUp = "skip"   // run none
)

// Policy says what Run does with slots that don't go as planned. The zero value is ready to use: a
// field that is zero means its default.
type Policy struct {
	// Grace is how late a slot may start, by the database's clock. A slot that nobody could start in
	// time is missed, or stays abandoned if it was claimed and given back. Attempts after the first
	// are not bound by it. At least 1 ms. Default 1 h.
	Grace time.Duration

	// CatchUp says which of the slots within Grace are run when several are due, or came due while the
	// job was running or nobody led it. Default CatchUpLatest.
	CatchUp CatchUp

	// Attempts is how often a slot is started at most, if its leader crashes, loses its term or is
	// shut down while its work runs. A claim whose work was never begun does not count. Only the
	// latest slot that has come is started again: one that was cut off is left when a later one is
	// due, even if that is missed. With CatchUpAll the newest on record and every slot within Grace
	// is. 1 to 1000. Default 3.
	Attempts int

	// RepeatFailed lets a slot whose work returned an error be started again too, up to Attempts,
	// RetryEvery after another. Default no: the mails may have been sent before the error.
	RepeatFailed bool

	// Keep is how long slots are kept after they came and were decided. The latest slot of a job is
	// kept for ever. At least 1 min. Default 90 days.
	Keep time.Duration
}

func (p Policy) withDefaults() Policy {
	if p.Grace == 0 {
		p.Grace = time.Hour
	}
	if p.CatchUp == "" {
		p.CatchUp = CatchUpLatest
	}
	if p.Attempts == 0 {
		p.Attempts = 3
	}
	if p.Keep == 0 {
		p.Keep = 90 * 24 * time.Hour
	}
	return p
}

// The limits of a policy.
const (
	MinGrace    = time.Millisecond // less is a number without a unit
	MinKeep     = time.Minute      // a statement that arrives late must find the record
	MaxAttempts = 1000
)

// Validate returns ErrSchedule for a policy that Run would refuse.
func (p Policy) Validate() error {
	p = p.withDefaults()
	switch {
	case p.Grace < MinGrace:
		return fmt.Errorf("%w: Policy.Grace is %v, want at least %v", ErrSchedule, p.Grace, MinGrace)
	case p.Attempts < 1 || p.Attempts > MaxAttempts:
		return fmt.Errorf("%w: Policy.Attempts is %d, want 1 to %d", ErrSchedule, p.Attempts, MaxAttempts)
	case p.Keep < MinKeep:
		return fmt.Errorf("%w: Policy.Keep is %v, want at least %v", ErrSchedule, p.Keep, MinKeep)
	case p.CatchUp != CatchUpLatest && p.CatchUp != CatchUpAll && p.CatchUp != CatchUpSkip:
		return fmt.Errorf("%w: Policy.CatchUp is %q, want %q, %q or %q",
			ErrSchedule, p.CatchUp, CatchUpLatest, CatchUpAll, CatchUpSkip)
	}
	return nil
}

// decided reports whether a slot in this state is not started again, unless somebody asks for that.
func (p Policy) decided(state State, attempt int32) bool {
	switch state {
	case StateDone, StateMissed:
		return true
	case StateFailed:
		return !p.RepeatFailed || int(attempt) >= p.Attempts
	case StateAbandoned:
		return int(attempt) >= p.Attempts
	case StateRunning, StateRequested:
	}
	return false
}

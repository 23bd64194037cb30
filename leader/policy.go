package leader

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

// Policy says what RunSchedule does with slots that don't go as planned. The zero value is ready to use.
type Policy struct {
	// Grace is how late a slot may start, by the database's clock. A slot that nobody could start in time is missed. Attempts
	// after the first are not bound by it. Default 1 h.
	Grace time.Duration

	// CatchUp says which of the slots within Grace are run when several are due, or came due while the job was running or
	// nobody led it. Default CatchUpLatest.
	CatchUp CatchUp

	// Attempts is how often a slot is started at most, if its leader crashes, loses its term or is shut down while it runs.
	// Unless CatchUp is CatchUpAll, only the job's latest slot is started again. Default 3.
	Attempts int

	// RepeatFailed lets a slot whose work returned an error be started again too, up to Attempts, RetryEvery after another.
	// Default no: the mails may have been sent before the error.
	RepeatFailed bool

	// Keep is how long decided slots are kept. The latest slot of a job is kept for ever. Default 90 days.
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

const (
	maxAttempts = 1000
	maxSlotWait = 30 * time.Second // between two looks at the database's clock: no timer goes on while the machine is suspended
	maxRecorded = 1000             // missed slots that are recorded at once, the latest ones
	maxPruned   = 100              // slots that are deleted at once
)

// Validate returns ErrSchedule for a policy that RunSchedule would refuse.
func (p Policy) Validate() error {
	p = p.withDefaults()
	switch {
	case p.Grace < 0:
		return fmt.Errorf("%w: Policy.Grace is %v, want more than 0", ErrSchedule, p.Grace)
	case p.Attempts < 1 || p.Attempts > maxAttempts:
		return fmt.Errorf("%w: Policy.Attempts is %d, want 1 to %d", ErrSchedule, p.Attempts, maxAttempts)
	case p.Keep < 0:
		return fmt.Errorf("%w: Policy.Keep is %v, want more than 0", ErrSchedule, p.Keep)
	case p.CatchUp != CatchUpLatest && p.CatchUp != CatchUpAll && p.CatchUp != CatchUpSkip:
		return fmt.Errorf("%w: Policy.CatchUp is %q, want %q, %q or %q", ErrSchedule, p.CatchUp, CatchUpLatest, CatchUpAll, CatchUpSkip)
	}
	return nil
}

// decided reports whether a slot in this state is not started again, unless somebody asks for that.
func (p Policy) decided(state SlotState, attempt int32) bool {
	switch state {
	case SlotDone, SlotMissed:
		return true
	case SlotFailed:
		return !p.RepeatFailed || int(attempt) >= p.Attempts
	case SlotAbandoned:
		return int(attempt) >= p.Attempts
	case SlotRunning, SlotRequested:
	}
	return false
}

package timetable

import (
	"fmt"
	"time"

	"github.com/pgleader/pgleader/schedule"
)

// DefaultPolicy is the policy of a job about which nothing is written.
func DefaultPolicy() schedule.Policy {
	return schedule.Policy{
		Grace:    time.Hour,
		CatchUp:  schedule.CatchUpLatest,
		Attempts: 3,
		Keep:     90 * 24 * time.Hour,
	}
}

// A FieldError is a value that cannot be honoured. Field is its name in a file, such as catch_up.
type FieldError struct {
	Field   string
	Problem string // goes behind the name: "is 0, want 1 to 1000"
}

func (e *FieldError) Error() string { return e.Field + " " + e.Problem }

// CheckPolicy returns a [FieldError] for a policy with a field that cannot be honoured. A zero is
// one: to the library it would mean the default.
func CheckPolicy(p schedule.Policy) error {
	switch {
	case p.Grace < schedule.MinGrace:
		return tooShort("grace", p.Grace, schedule.MinGrace)
	case p.Attempts < 1 || p.Attempts > schedule.MaxAttempts:
		return &FieldError{
			"attempts", fmt.Sprintf("is %d, want 1 to %d", p.Attempts, schedule.MaxAttempts),
		}
	case p.Keep < schedule.MinKeep:
		return tooShort("keep", p.Keep, schedule.MinKeep)
	}
	switch p.CatchUp {
	case schedule.CatchUpLatest, schedule.CatchUpAll, schedule.CatchUpSkip:
		return nil
	}
	return &FieldError{"catch_up", fmt.Sprintf("is %q, want %q, %q or %q",
		p.CatchUp, schedule.CatchUpLatest, schedule.CatchUpAll, schedule.CatchUpSkip)}
}

func tooShort(field string, d, least time.Duration) error {
	return &FieldError{field, fmt.Sprintf("is %v, want at least %v", d, least)}
}

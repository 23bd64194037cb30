package timetable

import (
	"fmt"
	"time"

	"github.com/pgleader/pgleader/leader"
)

// DefaultPolicy is the policy of a job about which nothing is written.
func DefaultPolicy() leader.Policy {
	return leader.Policy{
		Grace:    time.Hour,
		CatchUp:  leader.CatchUpLatest,
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

// maxAttempts is the library's limit.
const maxAttempts = 1000

// CheckPolicy returns a [FieldError] for a policy with a field that cannot be honoured. A zero is
// one: to the library it would mean the default.
func CheckPolicy(p leader.Policy) error {
	switch {
	case p.Grace <= 0:
		return wantPositive("grace", p.Grace)
	case p.Attempts < 1 || p.Attempts > maxAttempts:
		return &FieldError{"attempts", fmt.Sprintf("is %d, want 1 to %d", p.Attempts, maxAttempts)}
	case p.Keep <= 0:
		return wantPositive("keep", p.Keep)
	}
	switch p.CatchUp {
	case leader.CatchUpLatest, leader.CatchUpAll, leader.CatchUpSkip:
		return nil
	}
	return &FieldError{"catch_up", fmt.Sprintf("is %q, want %q, %q or %q",
		p.CatchUp, leader.CatchUpLatest, leader.CatchUpAll, leader.CatchUpSkip)}
}

func wantPositive(field string, d time.Duration) error {
	return &FieldError{field, fmt.Sprintf("is %v, want more than 0", d)}
}

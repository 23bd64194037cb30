package words

import (
	"errors"
	"fmt"
)

// WithHint adds to an error what the user should do about it. The error's own message stays as it
// is.
func WithHint(err error, format string, args ...any) error {
	return hintError{err, fmt.Sprintf(format, args...)}
}

// HintOf returns the hint that an error carries. Without one ok is false.
func HintOf(err error) (hint string, ok bool) {
	var h hintError
	ok = errors.As(err, &h)
	return h.hint, ok
}

type hintError struct {
	err  error
	hint string
}

func (h hintError) Error() string { return h.err.Error() }
func (h hintError) Unwrap() error { return h.err }

package words

import (
	"errors"
	"fmt"
)

// WithHint adds to an error what the user should do about it. The error's own message stays as it
// is.
func WithHint(err error, format string, args ...any) error {
	return hinted{err, fmt.Sprintf(format, args...)}
}

// HintOf returns the hint that an error carries. Without one ok is false.
func HintOf(err error) (hint string, ok bool) {
	var h hinted
	ok = errors.As(err, &h)
	return h.hint, ok
}

type hinted struct {
	err  error
	hint string
}

func (h hinted) Error() string { return h.err.Error() }
func (h hinted) Unwrap() error { return h.err }

package pgfake

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
)

// call makes one call on the connection, which survives no other errors than the server's.
//
// In a transaction it returns when the context of BeginTx ends, at the latest, and leaves the call
// behind, even with a driver that is deaf. Else database/sql would wait for the call on a mutex, to
// roll back: that stops the bubble's clock.
func call[T any](
	ctx context.Context, c *conn, f func(context.Context) (T, error),
) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var a answer
	if !c.IsValid() {
		return a.value, driver.ErrBadConn
	}
	answers := make(chan answer, 1)
	ask := func() {
		c.path.keep(1)
		defer c.path.keep(-1)
		value, err := f(ctx)
		answers <- answer{value, err}
	}
	if c.tx == nil {
		ask()
		a = <-answers
	} else {
		go ask()
		select {
		case a = <-answers:
		case <-c.txOf.Done():
			a.err = c.txOf.Err()
		}
	}
	if a.err != nil && !ofServer(a.err) {
		c.bad.Store(true)
	}
	return a.value, a.err
}

// ofServer reports whether the error is an answer of the server's, after which the connection is
// as good as before.
func ofServer(err error) bool {
	var state interface{ SQLState() string }
	return errors.As(err, &state) || errors.Is(err, sql.ErrNoRows) || errors.Is(err, errRolledBack)
}

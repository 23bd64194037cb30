package pgfake

import (
	"errors"
	"time"
)

// A Trouble is what happens to a statement. The zero value is nothing bad.
type Trouble struct {
	Late     time.Duration // until the statement reaches the server
	Slow     time.Duration // from there until the answer is back
	Deaf     bool          // the driver does not listen to the context meanwhile
	Fails    error         // the server says this, and does nothing
	Loses    error         // the driver says this, after the server has done it
	Hangs    bool          // the driver keeps the call until Unhang; the server never sees it
	Swallows bool          // the driver keeps the call until Unhang, but the server has done it

	// Again is how much later the server does it a second time, whatever has become of the caller:
	// the first try, of which the network lets go after the second one has succeeded. Nobody hears
	// the answer. It does not concern the statements of a transaction.
	Again time.Duration
}

// Always is a trouble for every statement.
func Always(tr Trouble) func(Statement) Trouble { return func(Statement) Trouble { return tr } }

// Only is a trouble for the statements of one kind. KindRenewOne stands for every renewal.
func Only(kind Kind, tr Trouble) func(Statement) Trouble {
	return func(s Statement) Trouble {
		if s.Kind == kind || kind == KindRenewOne && s.Renews() {
			return tr
		}
		return Trouble{}
	}
}

// ErrReset is what a driver returns when its connection breaks.
var ErrReset = errors.New("connection reset by peer")

// A ServerError is what a driver returns for an error of the server: its SQLSTATE.
type ServerError string

func (e ServerError) Error() string { return "server: SQLSTATE " + string(e) }

// SQLState returns the five characters, as the errors of the drivers do.
func (e ServerError) SQLState() string { return string(e) }

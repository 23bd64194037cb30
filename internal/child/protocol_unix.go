//go:build unix

package child

import (
	"encoding/binary"
	"io"
	"time"
)

// A spec is the first message to the keeper; orders follow. Both travel as gob.
type spec struct {
	Path      string
	Args, Env []string
	Dir       string
	Grace     time.Duration
	First     order
}

// An order replaces the one before it. The next is sent when it has been heard, so writing one
// never blocks: a pipe always has room for one.
type order struct {
	Until     time.Time     // by the wall clock
	Remaining time.Duration // until then when it was sent, for the monotonic clock of the receiver
	Stop      bool
}

func (o order) deadline() deadline {
	return deadline{time.Now().Add(o.Remaining), o.Until.Round(0)}
}

// A report is a message from the keeper. All have one size, less than what a pipe writes in one
// piece, so a read gets a whole one or nothing.
type report struct {
	Kind                       reportKind
	Value                      int32
	Expired, Killed, Survivors bool
}

type reportKind int32

const (
	reportStarted reportKind = iota // Value is the process group
	reportRefused                   // Value is the error number, or 0 if it was too late to start
	reportHeard                     // the latest order
	reportEnded                     // Value is the exit code; nothing is left, unless Survivors
)

var reportSize = binary.Size(report{})

func (r report) send(w io.Writer) {
	// An error means that the caller is dead, which its own pipe tells as well.
	_ = binary.Write(w, binary.NativeEndian, r)
}

func (r *report) decode(b []byte) error {
	_, err := binary.Decode(b, binary.NativeEndian, r)
	return err
}

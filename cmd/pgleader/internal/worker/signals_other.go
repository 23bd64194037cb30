//go:build !unix

package worker

import (
	"os"

	"github.com/pgleader/pgleader/internal/child"
)

func caught() []os.Signal { return []os.Signal{os.Interrupt} }

func isReload(os.Signal) bool { return false }

func endsAll(sig os.Signal) bool { return sig == os.Interrupt }

func endsIdle(os.Signal) bool { return false }

// pass sends a signal to a command. An error means that it has just ended, or that there is no such
// signal.
func pass(c *child.Child, sig os.Signal) { _ = c.Signal(sig) }

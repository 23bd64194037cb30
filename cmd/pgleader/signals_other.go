//go:build !unix

package main

import (
	"os"

	"github.com/pgleader/pgleader/internal/child"
)

var caught = []os.Signal{os.Interrupt}

func isReload(os.Signal) bool { return false }

func endsAll(sig os.Signal) bool { return sig == os.Interrupt }

func endsIdle(os.Signal) bool { return false }

func pass(c *child.Child, sig os.Signal) { _ = c.Signal(sig) } // an error: it has just ended, or there is no such signal

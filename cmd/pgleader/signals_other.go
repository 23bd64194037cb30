//go:build !unix

package main

import "os"

var caught = []os.Signal{os.Interrupt}

func isReload(os.Signal) bool { return false }

func endsAll(sig os.Signal) bool { return sig == os.Interrupt }

func endsIdle(os.Signal) bool { return false }

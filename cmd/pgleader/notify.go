package main

import (
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// notify tells systemd, if that started this process, that it is ready: also a candidate that waits is. Then it keeps the watchdog quiet.
func notify(ttl time.Duration) (stop func()) {
	_, _ = daemon.SdNotify(false, daemon.SdNotifyReady) // there may be no systemd
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil || interval == 0 {
		return func() {}
	}
	tick := time.NewTicker(min(interval/2, ttl))
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-tick.C:
				_, _ = daemon.SdNotify(false, daemon.SdNotifyWatchdog)
			case <-done:
				return
			}
		}
	}()
	return func() {
		tick.Stop()
		close(done)
	}
}

func stopping() { _, _ = daemon.SdNotify(false, daemon.SdNotifyStopping) }

// private reports whether an entry of the environment concerns pgleader alone: a command that took it up would speak to
// systemd in its place, or see the lease or the slot of a pgleader that this one runs under.
func private(entry string) bool {
	for _, name := range []string{
		"NOTIFY_SOCKET=", "WATCHDOG_USEC=", "WATCHDOG_PID=",
		"PGLEADER_JOB=", "PGLEADER_HOLDER=", "PGLEADER_TOKEN=", "PGLEADER_SLOT=", "PGLEADER_ATTEMPT=",
	} {
		if strings.HasPrefix(entry, name) {
			return true
		}
	}
	return false
}

package worker

import (
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// notify tells systemd, if that started this process, that it is ready: also a candidate that waits
// is. Then it keeps the watchdog quiet. Without systemd it does nothing.
func notify(ttl time.Duration) (stop func()) {
	_, _ = daemon.SdNotify(false, daemon.SdNotifyReady)
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

func notifyStopping() { _, _ = daemon.SdNotify(false, daemon.SdNotifyStopping) }

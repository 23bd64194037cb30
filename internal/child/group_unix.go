//go:build unix

package child

import (
	"errors"
	"syscall"
	"time"
)

// The keeper gives up when SIGKILL has had no effect for this long and this many times. It has none
// on what runs under another user, or waits for a device. The time alone could pass in one step, if
// the machine stands still.
const (
	giveUpAfter  = time.Second
	giveUpRounds = 50
)

// A keeper is what the process of that name knows.
type keeper struct {
	grace      time.Duration
	until      deadline
	pgid       int
	terminated time.Time    // when SIGTERM was sent
	killed     time.Time    // when SIGKILL was sent first
	rounds     int          // how often since
	told       map[int]bool // the strays that SIGTERM was sent to
	exited     bool         // the command itself
	alone      bool         // no child, on Linux no descendant, is left
	end        report
}

func newKeeper(s spec) *keeper {
	return &keeper{
		grace: s.Grace,
		until: s.First.deadline(),
		told:  make(map[int]bool),
		// If the command can't be killed, there is nothing better to say.
		end: report{Kind: reportEnded, Value: 128 + int32(syscall.SIGKILL)},
	}
}

// obey takes an order. More time does not revive what was asked to end.
func (k *keeper) obey(o order) {
	k.until = o.deadline()
	if o.Stop {
		k.terminate()
	}
}

// step does what is due now, and returns true when nothing is left to do.
func (k *keeper) step() bool {
	k.reap()
	if k.exited {
		if k.alone && syscall.Kill(-k.pgid, 0) != nil {
			return true
		}
		k.terminate()
	}
	if k.terminated.IsZero() && k.until.remaining() <= 0 {
		k.end.Expired = true
		k.terminate()
	}
	if !k.terminated.IsZero() {
		k.terminateStrays()
		if k.untilKill() <= 0 {
			k.kill()
		}
	}
	k.end.Survivors = k.rounds > giveUpRounds && time.Since(k.killed) > giveUpAfter
	return k.end.Survivors
}

// untilDue is how long nothing is due, unless a child exits or an order comes.
func (k *keeper) untilDue() time.Duration {
	switch {
	case k.rounds > 0:
		return 5 * time.Millisecond
	case !k.terminated.IsZero():
		// A group's end can't be waited for, only looked at.
		return min(k.untilKill(), 20*time.Millisecond)
	default:
		return min(k.until.remaining(), wallCheck)
	}
}

// untilKill is the time until SIGKILL, once SIGTERM was sent.
func (k *keeper) untilKill() time.Duration {
	return min(k.until.remaining()+k.grace, time.Until(k.terminated.Add(k.grace)))
}

// reap collects the command, and on Linux the orphans too. Nothing else in this process waits for
// children.
func (k *keeper) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			k.alone = true
			return
		case pid == 0:
			k.alone = false
			return
		case pid == k.pgid:
			k.exited = true
			k.end.Value = int32(status.ExitStatus())
			if status.Signaled() {
				k.end.Value = 128 + int32(status.Signal())
			}
		}
	}
}

// terminate asks the group to end, once. What is stopped could not answer.
func (k *keeper) terminate() {
	if k.terminated.IsZero() {
		k.terminated = time.Now()
		syscall.Kill(-k.pgid, syscall.SIGTERM)
		syscall.Kill(-k.pgid, syscall.SIGCONT)
	}
}

// terminateStrays asks those to end who left the group, each once. They show when their parents are
// gone.
func (k *keeper) terminateStrays() {
	if k.alone || !k.exited || syscall.Kill(-k.pgid, 0) == nil {
		return
	}
	for _, pid := range strays(k.pgid) {
		if !k.told[pid] {
			k.told[pid] = true
			syscall.Kill(pid, syscall.SIGTERM)
			syscall.Kill(pid, syscall.SIGCONT)
		}
	}
}

// kill is called again until nothing is left: the death of a parent may bring up strays.
func (k *keeper) kill() {
	if k.rounds == 0 {
		k.killed = time.Now()
	}
	k.rounds++
	if syscall.Kill(-k.pgid, syscall.SIGKILL) == nil {
		k.end.Killed = true
	}
	for _, pid := range strays(k.pgid) {
		if syscall.Kill(pid, syscall.SIGKILL) == nil {
			k.end.Killed = true
		}
	}
}

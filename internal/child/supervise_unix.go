//go:build unix

package child

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// answerWithin is how long after the group's end the keeper has to say so. It needs less, unless
// something can't be killed; then it gives up earlier than this.
const answerWithin = 2 * time.Second

// The time alone could pass in one step, if the machine stands still or this process is stopped.
const answerRounds = int(answerWithin / wallCheck / 2)

// supervise follows the keeper until it has ended, kills the group if the keeper does not, and then
// closes done.
func (c *Child) supervise() {
	for !c.ended() {
		c.setReadDeadline()
		err := c.raw.Read(func(uintptr) bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.readReports()
			return c.over
		})
		if errors.Is(err, os.ErrDeadlineExceeded) {
			c.killIfOverdue()
		}
	}
	c.finish()
}

func (c *Child) ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

// setReadDeadline wakes the reader at the next moment that something is due, which Stop brings
// forward.
func (c *Child) setReadDeadline() {
	c.mu.Lock()
	defer c.mu.Unlock()
	wait := wallCheck
	if c.overdue.IsZero() {
		wait = min(wait, c.untilDead())
	}
	c.status.SetReadDeadline(time.Now().Add(wait))
}

// untilDead is the time until the group has to be dead. It goes by what the keeper has heard, as
// that is when a keeper in good health would have killed it.
func (c *Child) untilDead() time.Duration {
	left := min(c.heard.remaining(), c.wanted.remaining()) + c.grace
	if !c.stopped.IsZero() {
		left = min(left, time.Until(c.stopped.Add(c.grace)))
	}
	return left
}

// killIfOverdue does what the keeper should have done by now, if its time is up.
func (c *Child) killIfOverdue() {
	c.mu.Lock()
	defer c.mu.Unlock()
	// After a stop of this process the group's number may be another group's, if the keeper has
	// reported the end meanwhile.
	c.readReports()
	if c.over || c.overdue.IsZero() && c.untilDead() > 0 {
		return
	}
	if c.overdue.IsZero() {
		c.overdue = time.Now()
	}
	c.reminders++
	c.kill()
	c.keeper.Process.Signal(syscall.SIGCONT) // one that was only stopped knows best what is left
	if c.reminders > answerRounds && time.Since(c.overdue) >= answerWithin {
		c.silent = true
		c.keeper.Process.Kill()
	}
}

func (c *Child) kill() {
	if c.pgid != 0 && syscall.Kill(-c.pgid, syscall.SIGKILL) == nil {
		c.result.Killed = true
	}
}

// readReports takes in all reports that have arrived. It does not wait, and the caller holds mu:
// after it, what this process believes of the group is as recent as can be.
func (c *Child) readReports() {
	if c.over {
		return
	}
	err := c.raw.Control(func(fd uintptr) {
		for b := make([]byte, reportSize); !c.over; {
			n, err := syscall.Read(int(fd), b)
			var r report
			switch {
			case errors.Is(err, syscall.EINTR):
			case errors.Is(err, syscall.EAGAIN):
				return
			case n < reportSize || r.decode(b) != nil:
				c.over = true // the end of the pipe: the keeper is dead
			default:
				c.handleReport(r)
			}
		}
	})
	c.over = c.over || err != nil
}

func (c *Child) handleReport(r report) {
	switch r.Kind {
	case reportStarted:
		c.pgid = int(r.Value)
		close(c.begun)
	case reportHeard:
		c.heard, c.underWay = c.sent, false
		if c.dirty {
			c.sendOrder()
		}
	default:
		c.last, c.over = &r, true
	}
}

// finish leaves no process behind. The keeper has nothing to do any more, and could be stopped
// before it exits. It does not hold mu, so that Extend does not block: nothing changes after over.
func (c *Child) finish() {
	c.keeper.Process.Kill()
	r := &c.result
	// The keeper takes it for an exit if this process's SIGKILL comes before its own.
	r.Expired = !c.overdue.IsZero() && c.stopped.IsZero()
	if c.last != nil {
		r.ExitCode = int(c.last.Value)
		r.Expired, r.Killed = r.Expired || c.last.Expired, r.Killed || c.last.Killed
		if c.last.Survivors {
			r.Err = errSurvivors
		}
	} else {
		r.ExitCode, r.Killed, r.Err = 128+int(syscall.SIGKILL), true, errDied
		if c.silent {
			r.Err = errSilent
		}
		if !c.killGroup() {
			r.Err = errors.Join(r.Err, errSurvivors)
		}
	}
	c.keeper.Wait()
	c.control.Close()
	c.status.Close()
	close(c.done)
}

// killGroup waits until nothing is left, within reason.
func (c *Child) killGroup() bool {
	for end := time.Now().Add(answerWithin); ; time.Sleep(time.Millisecond) {
		c.kill()
		if c.pgid == 0 || !groupLives(c.pgid) {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

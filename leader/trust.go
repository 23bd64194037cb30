package leader

import "time"

// An instant is a moment by both clocks of the machine. The monotonic clock can't be set, but
// stands still while the machine is suspended; the wall clock goes on, but can be set. A lease goes
// on by the database's clock meanwhile, so whichever says that time is over is believed.
type instant struct{ mono, wall time.Time }

func (c *core) now() instant { return instant{mono: time.Now(), wall: c.wall()} }

func (i instant) add(d time.Duration) instant { return instant{i.mono.Add(d), i.wall.Add(d)} }

// reached reports whether i has come by either clock.
func (i instant) reached(now instant) bool {
	return !now.mono.Before(i.mono) || !now.wall.Before(i.wall)
}

// trust is until when a process may take itself for the leader, if the request that the database
// granted left at sent. The database counts the TTL from a later moment.
func (c *core) trust(sent instant) instant { return sent.add(c.ttl - c.margin) }

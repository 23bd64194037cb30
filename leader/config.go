package leader

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pgleader/pgleader/internal/pgcall"
)

const (
	// MinTTL is the shortest TTL that New accepts. Below it, a tenth of the TTL is less than the
	// pauses that a busy machine imposes on any process, and terms would be lost for no other reason.
	MinTTL = 250 * time.Millisecond

	// MaxTTL is the longest TTL that New accepts. A crashed leader is succeeded only after its TTL.
	MaxTTL = 24 * time.Hour

	// MaxJobBytes is the length of the longest job name, in bytes. The table has the same limit.
	MaxJobBytes = 1024

	minInterval    = 10 * time.Millisecond
	maxHolderBytes = 200 // leaves room in the column's 255 bytes for the random part
)

// Config says who an elector is and how often it talks to the database. The zero value is ready to
// use.
type Config struct {
	// Holder names this process to a person who reads the lease table. New appends a random part, so
	// that two processes with the same name are never taken for one, nor a process for its own
	// predecessor after a restart. At most 200 bytes of UTF-8. Default host:pid.
	Holder string

	// TTL is how long a lease lasts without renewal. After a crash nobody leads until it is over; then
	// a candidate takes over at once. A Resign that cannot reach the database, and so a shutdown, may
	// take as long. A term ends TTL/10 before its lease, a margin for clocks that run at different
	// rates. 250 ms to 24 h. Default 15 s.
	TTL time.Duration

	// RenewEvery is how often the leases that this process holds are renewed, all by one statement.
	// RenewEvery, a renewal of TTL/3, the margin of TTL/10 and StopWithin must fit in the TTL: without
	// StopWithin it is at most 17/30 of the TTL. Default TTL/3.
	RenewEvery time.Duration

	// RetryEvery is how often a waiting candidate looks at the lease when nothing wakes it earlier.
	// Each wait is up to a quarter longer, at random, so that many candidates spread out: after a
	// resignation a job has no leader for 1.25 times RetryEvery at most. At least 10 ms. Default
	// TTL/3, at most 1.5 s.
	RetryEvery time.Duration

	// StopWithin is how long work may need to stop. Terms end this much earlier, so that what the end
	// of their context sets going is over before a successor can lead: a process that is asked to end,
	// and then killed. It takes from the time that failing renewals have. Default 0.
	StopWithin time.Duration

	// Logger gets one line for each event, with the attributes job, holder and token. Default
	// slog.Default().
	Logger *slog.Logger

	// OnEvent, if set, is called beside every log line, for metrics. It is called from the goroutine
	// that saw the event, possibly from several at once. It must not block, for renewals may wait for
	// it, nor call a method for the event's job: EventElected is reported just before the term is in
	// place, EventResigned before Resign returns. Default nil.
	OnEvent func(Event)
}

func (c Config) withDefaults() Config {
	if c.Holder == "" {
		c.Holder = hostAndPID()
	}
	if c.TTL == 0 {
		c.TTL = 15 * time.Second
	}
	if c.RenewEvery == 0 {
		c.RenewEvery = c.TTL / 3
	}
	if c.RetryEvery == 0 {
		c.RetryEvery = min(c.TTL/3, 1500*time.Millisecond)
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func hostAndPID() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	host = strings.ToValidUTF8(host[:min(len(host), maxHolderBytes-20)], "")
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}

// timing is every duration that an elector uses, derived from Config in one place and validated
// together.
type timing struct {
	ttl        time.Duration
	renewEvery time.Duration
	retryEvery time.Duration
	callLimit  time.Duration // how long one call to the database may take
	margin     time.Duration // a term ends this much before its lease
	retryPause time.Duration // between a failed renewal and the next try
	wallCheck  time.Duration // how often the wall clock is compared while terms are held
}

// timing expects the defaults to be filled in.
func (c Config) timing() (timing, error) {
	t := timing{ttl: c.TTL, renewEvery: c.RenewEvery, retryEvery: c.RetryEvery}
	if t.ttl < MinTTL || t.ttl > MaxTTL {
		return t, fmt.Errorf("%w: TTL is %v, want %v to %v", ErrConfig, t.ttl, MinTTL, MaxTTL)
	}
	t.callLimit = t.ttl / 3
	reserve := t.ttl / 10
	room := max(0, t.ttl-t.callLimit-reserve-max(0, t.renewEvery))
	if c.StopWithin < 0 || c.StopWithin > 0 && c.StopWithin > room {
		return t, fmt.Errorf("%w: StopWithin is %v, want 0 to %v at TTL %v and RenewEvery %v: "+
			"raise TTL, or set RenewEvery to less", ErrConfig, c.StopWithin, room, t.ttl, t.renewEvery)
	}
	t.margin = reserve + c.StopWithin
	t.retryPause = pgcall.RetryPause(t.renewEvery)
	t.wallCheck = min(reserve/2, time.Second)

	if t.renewEvery < minInterval {
		return t, fmt.Errorf("%w: RenewEvery is %v, want at least %v",
			ErrConfig, t.renewEvery, minInterval)
	}
	if longest := t.ttl - t.callLimit - t.margin; t.renewEvery > longest { // a sum could overflow
		return t, fmt.Errorf("%w: RenewEvery %v + %v for one renewal (TTL/3) + %v of margin (TTL/10) + "+
			"StopWithin %v do not fit in TTL %v: raise TTL, or set RenewEvery to %v or less",
			ErrConfig, t.renewEvery, t.callLimit, reserve, c.StopWithin, t.ttl, longest)
	}
	if t.retryEvery < minInterval || t.retryEvery > MaxTTL {
		return t, fmt.Errorf("%w: RetryEvery is %v, want %v to %v",
			ErrConfig, t.retryEvery, minInterval, MaxTTL)
	}
	return t, nil
}

// identity returns the name that goes into the lease row. The random part makes it unique to one
// elector: a host name is not (containers share it, and all of them are process 1), and neither is
// a configured name after a restart.
func (c Config) identity() (string, error) {
	if err := checkText(c.Holder, maxHolderBytes); err != nil {
		return "", fmt.Errorf("%w: Holder %w", ErrConfig, err)
	}
	return c.Holder + ":" + strings.ToLower(rand.Text()[:12]), nil
}

// CheckJob returns ErrJobName for a name that every method would refuse.
func CheckJob(job string) error {
	if err := checkText(job, MaxJobBytes); err != nil {
		return fmt.Errorf("%w: it %w", ErrJobName, err)
	}
	return nil
}

// checkText refuses what Postgres would refuse (SQLSTATE 22021, 23514) with a less helpful message.
func checkText(s string, limit int) error {
	switch {
	case s == "":
		return errors.New("is empty")
	case len(s) > limit:
		return fmt.Errorf("has %d bytes, want at most %d", len(s), limit)
	case !utf8.ValidString(s):
		return errors.New("is not valid UTF-8")
	case strings.ContainsRune(s, 0):
		return errors.New("contains a NUL byte, which Postgres cannot store")
	}
	return nil
}

// Package wake is what leader/pqwake and leader/pgxwake have in common: a listener that connects
// again, reports each row of failures once, and returns what waiting can't mend.
package wake

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

const (
	// Channel is what the queries of package db notify.
	Channel = "leader_lease"

	// ConnectLimit bounds the login at one host, unless the URL has a connect_timeout.
	ConnectLimit = 10 * time.Second

	// PingEvery is how often a quiet connection is asked whether it still is one.
	PingEvery = 30 * time.Second

	// PingLimit is how long the answer may take.
	PingLimit = 10 * time.Second

	minBackoff = 200 * time.Millisecond
	maxBackoff = 30 * time.Second
)

// Config has the fields of the two packages' Config, which say what they mean.
type Config struct {
	URL     string
	Wake    func(job string)
	Logger  *slog.Logger
	OnError func(error)
}

// A Driver is what the two packages differ in.
type Driver struct {
	// Name is the package's, which begins its messages.
	Name string

	// Connect returns a session that listens on Channel. It may take until ctx ends.
	Connect func(ctx context.Context) (Session, error)

	// Limit bounds Connect. It leaves time for every host of the URL.
	Limit time.Duration

	// Advice says what to do about an error of the driver's own that waiting can't mend, or "".
	Advice func(error) string
}

// A Session is a connection that listens.
type Session interface {
	// Receive passes on notifications until the connection is lost, and says why, or ctx ends.
	Receive(ctx context.Context, wake func(job string)) error

	// Close ends the connection, and waits until nothing of the session runs any more.
	Close()
}

// Listen listens until ctx ends, and returns ctx's error, or before that an error that waiting
// can't mend.
func Listen(ctx context.Context, cfg Config, driver Driver) error {
	if cfg.Wake == nil {
		return errors.New(driver.Name + ": Config.Wake is nil, want the elector's method Wake")
	}
	if endsEarly(cfg.URL) {
		return errors.New(driver.Name + ": Config.URL has an @ after its host; " +
			"write / in a password as %2F, and @ in a database's name as %40")
	}
	failures := row{name: driver.Name, log: cfg.Logger, onError: cfg.OnError}
	if failures.log == nil {
		failures.log = slog.Default()
	}
	backoff := minBackoff
	for {
		lasted, err := listenOnce(ctx, cfg.Wake, driver, &failures)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		err = fmt.Errorf("%s: %w", driver.Name, err)
		if todo := advice(err, driver.Advice); todo != "" {
			return fmt.Errorf("%w; %s", err, todo)
		}
		failures.add(err)
		if lasted >= maxBackoff { // else a server that ends each session at once would set the pace
			backoff = minBackoff
		}
		select {
		case <-time.After(backoff):
		case <-ctx.Done():
			return ctx.Err()
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// listenOnce listens for as long as one connection lasts. It returns how long that was, and why it
// ended or did not come about.
func listenOnce(
	ctx context.Context, wake func(job string), driver Driver, failures *row,
) (time.Duration, error) {
	attempt, cancel := context.WithTimeout(ctx, driver.Limit)
	defer cancel()
	session, err := driver.Connect(attempt)
	if err != nil && attempt.Err() != nil {
		return 0, fmt.Errorf("no connection within %v: %w", driver.Limit, err)
	}
	if err != nil {
		return 0, err
	}
	defer session.Close()
	failures.end()
	began := time.Now()
	wake("") // what was notified before is lost
	err = session.Receive(ctx, wake)
	return time.Since(began), fmt.Errorf("connection lost: %w", err)
}

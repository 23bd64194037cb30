package pgcall

import (
	"context"
	"math/rand/v2"
	"time"
)

// Ask is Call within the caller's limit and through its gate: for everyone who can wait.
func Ask[T any](ctx context.Context, c *Caller, question Question[T]) (T, error) {
	var none T
	if err := c.gate.pass(ctx); err != nil {
		return none, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	value, err := call(ctx, c.connect, c.gate.keep, question)
	c.gate.done(err)
	return value, err
}

// maxAmongRivals is how often AskAmongRivals asks.
const maxAmongRivals = 10

// AskAmongRivals is Ask, again at once while the server gives the statement up in favour of a
// concurrent one, until ctx ends. After some tries it returns the server's error: a rival is done
// by then, and a server that says so for ever must not be asked without a pause.
func AskAmongRivals[T any](ctx context.Context, c *Caller, question Question[T]) (T, error) {
	for tries := 1; ; tries++ {
		value, err := Ask(ctx, c, question)
		if !Rivalry(err) || ctx.Err() != nil || tries == maxAmongRivals {
			return value, err
		}
	}
}

// AskWhile is Ask, again after a pause while again says so of the error, until ctx ends.
func AskWhile[T any](
	ctx context.Context, c *Caller, again func(error) bool, question Question[T],
) (T, error) {
	for {
		value, err := Ask(ctx, c, question)
		if err == nil || !again(err) || Sleep(ctx, c.pause) != nil {
			return value, err
		}
	}
}

// RetryPause is how long to wait between two tries of what is to be done so often: a tenth of it,
// at least 10 ms and at most a second.
func RetryPause(every time.Duration) time.Duration {
	return max(10*time.Millisecond, min(every/10, time.Second))
}

// Spread is d or up to a quarter longer, at random, so that many who wait for it do not come at
// once.
func Spread(d time.Duration) time.Duration { return d + rand.N(d/4) }

// Sleep waits, or returns ctx's error as soon as it ends.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Outlast returns a context that ends a while after ctx: for a statement whose answer must be heard
// out. The caller cancels it.
func Outlast(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(grace, cancel)
		context.AfterFunc(longer, func() { timer.Stop() })
	})
	return longer, func() { stop(); cancel() }
}

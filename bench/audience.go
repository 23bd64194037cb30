package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pgleader/pgleader/leader"
)

// An audience is a number of campaigns that wait.
type audience struct {
	ctx     context.Context
	cancel  context.CancelFunc
	waiting atomic.Int64
	wg      sync.WaitGroup
}

func newAudience(ctx context.Context) *audience {
	a := &audience{}
	a.ctx, a.cancel = context.WithCancel(ctx)
	return a
}

// onEvent is for the config of every elector that campaigns.
func (a *audience) onEvent(e leader.Event) {
	if e.Kind == leader.EventWaiting {
		a.waiting.Add(1)
	}
}

func (a *audience) campaign(e *leader.Elector, job string) {
	a.wg.Go(func() {
		if term, err := e.Campaign(a.ctx, job); err == nil {
			_ = term.Resign() // the leader of a run that is over has resigned
		}
	})
}

// seated returns when n campaigns have found their leases held.
func (a *audience) seated(n int) error {
	const limit = 2 * time.Minute
	for end := time.Now().Add(limit); a.waiting.Load() < int64(n); time.Sleep(10 * time.Millisecond) {
		if a.ctx.Err() != nil {
			return a.ctx.Err()
		}
		if time.Now().After(end) {
			return fmt.Errorf("only %d of %d candidates wait after %v", a.waiting.Load(), n, limit)
		}
	}
	return nil
}

func (a *audience) leave() {
	a.cancel()
	a.wg.Wait()
}

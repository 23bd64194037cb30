package pgfake

import (
	"context"
	"time"
)

// ask sends a statement that concerns one job, which f carries out under the table's mutex.
func ask[T any](
	ctx context.Context, p *Path, kind Kind, job string, f func(*Table) (T, error),
) (T, error) {
	return send(ctx, p, kind, []string{job}, f)
}

// send takes a statement through the path's troubles to the table, where f carries it out under the
// table's mutex.
func send[T any](
	ctx context.Context, p *Path, kind Kind, jobs []string, f func(*Table) (T, error),
) (T, error) {
	p.mu.Lock()
	p.count[kind]++
	s := Statement{Kind: kind, Jobs: jobs, At: time.Now(), Nth: p.count[kind]}
	p.sent = append(p.sent, s)
	cause, freed := p.trouble, p.freed
	p.mu.Unlock()

	var none T
	var tr Trouble
	if cause != nil {
		tr = cause(s)
	}
	if tr.Hangs {
		<-freed
		return none, ErrReset
	}
	if err := tr.wait(ctx, tr.Late); err != nil {
		return none, err
	}
	if tr.Fails != nil {
		return none, tr.Fails
	}
	deliver := func(ctx context.Context) (T, error) {
		return carryOut(ctx, p.table, func() (T, error) { return f(p.table) })
	}
	value, err := deliver(ctx)
	if tr.Again > 0 {
		p.later(tr.Again, func() { _, _ = deliver(context.WithoutCancel(ctx)) })
	}
	if tr.Swallows {
		<-freed
		return none, ErrReset
	}
	if err := tr.wait(ctx, tr.Slow); err != nil {
		return none, err
	}
	if tr.Loses != nil {
		return none, tr.Loses
	}
	return value, err
}

// wait lets d pass, or returns an error when ctx ends before, unless the driver is deaf to that.
func (tr Trouble) wait(ctx context.Context, d time.Duration) error {
	if tr.Deaf {
		ctx = context.WithoutCancel(ctx)
	}
	if d == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// later has a statement delivered again, d from now.
func (p *Path) later(d time.Duration, deliver func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.underway++
	go func() {
		time.Sleep(d)
		deliver()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.underway--
		if p.underway == 0 {
			close(p.arrived)
			p.arrived = make(chan struct{})
		}
	}()
}

// Wait waits until every statement has been delivered that is to be delivered again.
func (p *Path) Wait() {
	for {
		p.mu.Lock()
		underway, arrived := p.underway, p.arrived
		p.mu.Unlock()
		if underway == 0 {
			return
		}
		<-arrived
	}
}

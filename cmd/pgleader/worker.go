package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgleader/pgleader/internal/child"
	"github.com/pgleader/pgleader/leader"
)

// A worker runs commands while this process leads their jobs: what run, try, slot and cron have in common.
type worker struct {
	app        *app
	ttl        time.Duration
	stopWithin time.Duration
	drain      time.Duration
	holder     string
	quiet      bool

	pool    *sql.DB
	elector *leader.Elector
	forward bool // whether SIGHUP goes to the commands, or to reload
	reload  chan struct{}

	mu       sync.Mutex
	children map[*child.Child]struct{}
	ending   os.Signal // the signal that has asked this process to end
	advised  string    // the last advice that was printed
	stop     context.CancelFunc
	onWait   func(leader.Event) // called for Waiting
	onSkip   func(leader.Event) // called for Skipped

	onSettled func(job string) // called when a slot was recorded, or the term lost
}

// flags adds the flags that every command of a worker has.
func (w *worker) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.DurationVar(&w.ttl, "ttl", 15*time.Second, "how long the lease lasts without renewal: after a crash another instance takes over within it")
	f.DurationVar(&w.stopWithin, "stop-within", 0, "how long the command has between SIGTERM and SIGKILL when the lease is lost; the term ends that much "+
		"earlier, so that the command is dead before another instance starts (default a fifth of --ttl)")
	f.DurationVar(&w.drain, "drain-timeout", 0, "how long the command may take to end after pgleader was asked to end, before it is killed (default no limit)")
	f.StringVar(&w.holder, "holder", "", "the name of this instance in the lease table; a random part is added (default host:pid)")
	f.BoolVarP(&w.quiet, "quiet", "q", false, "print errors only")
}

// start makes the elector and begins to listen to signals. The context ends when this process is asked to end.
func (w *worker) start(ctx context.Context) (_ context.Context, end func(), err error) {
	if w.pool, err = w.app.open(); err != nil {
		return nil, nil, err
	}
	if w.drain < 0 {
		return nil, nil, fmt.Errorf("--drain-timeout is %v, want 0 or more", w.drain)
	}
	if w.ttl <= 0 { // the library takes 0 for its default
		return nil, nil, fmt.Errorf("--ttl is %v, want %v or more", w.ttl, leader.MinTTL)
	}
	if w.stopWithin == 0 {
		w.stopWithin = w.ttl / 5
	}
	if longest := w.ttl * 5 / 12; w.stopWithin < 0 || w.stopWithin > longest {
		return nil, nil, hint(fmt.Errorf("--stop-within is %v, want 0 to %v with --ttl %v", w.stopWithin, longest, w.ttl),
			"a longer --ttl leaves more time")
	}
	w.elector, err = leader.New(w.pool, leader.Config{
		Holder:     w.holder,
		TTL:        w.ttl,
		RenewEvery: w.renewEvery(),
		StopWithin: w.stopping(),
		Logger:     slog.New(slog.DiscardHandler),
		OnEvent:    w.report,
	})
	if err != nil {
		return nil, nil, err
	}
	w.children = make(map[*child.Child]struct{})
	w.reload = make(chan struct{}, 1)
	ctx, w.stop = context.WithCancel(ctx)
	stopSignals := w.listen()
	stopNotify := notify(w.ttl)
	return ctx, func() {
		stopSignals()
		stopNotify()
		w.stop()
		_ = w.pool.Close() // nothing is left to lose
	}, nil
}

// renewEvery leaves room for --stop-within in the TTL.
func (w *worker) renewEvery() time.Duration {
	room := w.ttl*17/30 - w.stopping() // TTL/3 is for one renewal, TTL/10 the library's margin
	return min(w.ttl/3, room)          // a twentieth of the TTL at least, as start sees to it
}

// stopping is --stop-within, and a tenth of the TTL for the kill itself: on a busy machine it takes a while until a process group is gone.
func (w *worker) stopping() time.Duration { return w.stopWithin + w.ttl/10 }

// report tells what happens to the leases, in the words of the command line.
func (w *worker) report(event leader.Event) {
	switch event.Kind {
	case leader.Elected:
		w.say(event.Job, "leading under token %d", event.Token)
	case leader.Lost:
		w.settled(event.Job)
		w.say(event.Job, "lost the lease with token %d: %s", event.Token, plainly(event.Err))
	case leader.Resigned:
		if event.Err != nil {
			w.warn(event.Job, "could not release the lease, it expires within %v: %s", w.ttl, plainly(event.Err))
		}
	case leader.Waiting:
		w.say(event.Job, "waiting, %s leads under token %d", shown(event.Holder), event.Token)
		if w.onWait != nil {
			w.onWait(event)
		}
	case leader.SlotStarted:
		w.say(event.Job, "slot %s started", stamp(event.Slot))
	case leader.SlotFinished:
		w.settled(event.Job)
		if event.Err != nil {
			w.warn(event.Job, "slot %s %s: %s", stamp(event.Slot), event.State, plainly(event.Err))
		} else {
			w.say(event.Job, "slot %s %s", stamp(event.Slot), event.State)
		}
	case leader.SlotsMissed:
		w.warn(event.Job, "slots up to %s: %s", stamp(event.Slot), plainly(event.Err))
	case leader.RenewFailed, leader.LookFailed, leader.ClaimFailed, leader.SlotRetry:
		w.warn(event.Job, "%s, trying again", plainly(event.Err))
		w.advise(event.Err)
	case leader.Skipped:
		if w.onSkip != nil {
			w.onSkip(event)
		}
	case leader.ClockSetBack:
		w.warn(event.Job, "freed the lease of %s: %s", shown(event.Holder), plainly(event.Err))
	case leader.ResignFailed: // Resigned follows
	}
}

// advise says what to do about an error, unless that is what was said last.
func (w *worker) advise(err error) {
	text := advice(err)
	w.mu.Lock()
	defer w.mu.Unlock()
	if text != "" && text != w.advised {
		w.advised = text
		fmt.Fprintf(w.app.stderr, "pgleader: hint: %s\n", text)
	}
}

// settled tells who asked for it that nothing is left to record about the command that ran last.
func (w *worker) settled(job string) {
	if w.onSettled != nil {
		w.onSettled(job)
	}
}

func (w *worker) say(job, format string, args ...any) {
	if !w.quiet {
		w.warn(job, format, args...)
	}
}

func (w *worker) warn(job, format string, args ...any) {
	prefix := "pgleader: "
	if job != "" {
		prefix += shown(job) + ": "
	}
	fmt.Fprintf(w.app.stderr, "%s%s\n", prefix, fmt.Sprintf(format, args...))
}

// A result is how a command ended.
type result struct {
	code int   // its exit status, 128+n for signal n
	lost bool  // it was ended because the lease was lost
	err  error // it could not be started or watched
}

// error is what the library is told: nil if the command did its work.
func (r result) error() error {
	switch {
	case r.err != nil:
		return r.err
	case r.lost:
		return errors.New("the lease was lost, and the command was ended")
	case r.code > 128 && r.code <= 128+64: // there are no more signals; 255 is what ssh exits with
		return fmt.Errorf("the command was ended by signal %d", r.code-128)
	case r.code != 0:
		return fmt.Errorf("the command exited with status %d", r.code)
	}
	return nil
}

// exit is what pgleader exits with after the command.
func (r result) exit() error {
	var start *child.StartError
	switch {
	case errors.As(r.err, &start):
		return exitError{start.ExitCode, r.err}
	case r.err != nil:
		return exitError{exitFailed, r.err}
	case r.lost:
		return exitError{exitLost, errors.New("the lease was lost while the command ran, and the command was ended")}
	case r.code != 0:
		return exitError{code: r.code}
	}
	return nil
}

// A job is a command and how it is run.
type job struct {
	name string
	args []string
	dir  string
	env  []string // in addition to pgleader's own
}

// work runs the job's command under a term, to its end. All that it started is gone when work returns.
func (w *worker) work(ctx context.Context, j job, term *leader.Term, slot *leader.Slot) result {
	if ctx.Err() != nil {
		return result{err: ctx.Err()}
	}
	c, err := child.Start(child.Command{
		Args:   j.args,
		Env:    w.environment(j, term, slot),
		Dir:    j.dir,
		Grace:  w.stopWithin,
		Stdin:  w.app.stdin,
		Stdout: w.app.stdout,
		Stderr: w.app.stderr,
	}, term.Until())
	if err != nil {
		return result{err: err}
	}
	w.enter(c)
	defer w.leave(c)
	extend := time.NewTicker(w.ttl / 20)
	defer extend.Stop()
	over := term.Context().Done()
	for {
		select {
		case <-c.Done():
			r := c.Result()
			return result{code: r.ExitCode, lost: over == nil || r.Expired, err: r.Err}
		case <-extend.C:
			if over != nil {
				c.Extend(term.Until())
			}
		case <-over:
			over = nil
			c.Stop()
		}
	}
}

// environment is pgleader's own, with what the command may want to know, and without what concerns pgleader alone.
func (w *worker) environment(j job, term *leader.Term, slot *leader.Slot) []string {
	var env []string
	for _, entry := range os.Environ() {
		if !private(entry) {
			env = append(env, entry)
		}
	}
	env = append(env, j.env...)
	env = append(env,
		"PGLEADER_JOB="+j.name,
		"PGLEADER_HOLDER="+w.elector.Holder(),
		fmt.Sprintf("PGLEADER_TOKEN=%d", term.Token()))
	if slot != nil {
		env = append(env, "PGLEADER_SLOT="+stamp(slot.Time()), fmt.Sprintf("PGLEADER_ATTEMPT=%d", slot.Attempt()))
	}
	return env
}

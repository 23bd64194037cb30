package worker

import (
	"os"
	"os/signal"
	"time"

	"github.com/pgleader/pgleader/internal/child"
)

// Asked returns the signal that asked this process to end, or nil.
func (w *Worker) Asked() os.Signal {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ending
}

// listen passes signals on to the commands that run. The first of those that ask to end also ends
// the worker's context: no campaign goes on, and nothing new is started. The lease is renewed until
// the commands have ended.
func (w *Worker) listen() (stop func()) {
	incoming := make(chan os.Signal, 16)
	for _, sig := range caught() {
		// What is ignored, as under nohup, the command is to inherit. A reload is asked for by name.
		if !signal.Ignored(sig) || isReload(sig) && w.config.Reload {
			signal.Notify(incoming, sig)
		}
	}
	done := make(chan struct{})
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for {
			select {
			case sig := <-incoming:
				w.handle(sig)
			case <-done:
				return
			}
		}
	}()
	return func() {
		signal.Stop(incoming)
		close(done)
		<-gone
	}
}

func (w *Worker) handle(sig os.Signal) {
	if isReload(sig) && w.config.Reload {
		select {
		case w.reload <- struct{}{}:
		default:
		}
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.children {
		pass(c, sig)
	}
	if w.ending == nil && (endsAll(sig) || len(w.children) == 0 && endsIdle(sig)) {
		w.ending = sig
		w.stop()
		notifyStopping()
		if w.config.Drain > 0 {
			time.AfterFunc(w.config.Drain, w.endCommands)
		}
	}
}

// endCommands ends those that have not ended within the drain timeout.
func (w *Worker) endCommands() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drained = true
	for c := range w.children {
		c.Stop()
	}
}

// enter makes a command one that gets signals. What came while it was started, it gets now.
func (w *Worker) enter(c *child.Child) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.children[c] = struct{}{}
	if w.ending != nil {
		pass(c, w.ending)
	}
	if w.drained {
		c.Stop()
	}
}

func (w *Worker) leave(c *child.Child) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.children, c)
}

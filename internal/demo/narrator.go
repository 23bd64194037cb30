package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/pgleader/pgleader/leader"
)

// A narrator prints the time line: when, who, what.
type narrator struct {
	mu    sync.Mutex
	out   io.Writer
	start time.Time
}

const columns = 100 // longer lines are cut

func newNarrator(out io.Writer) *narrator { return &narrator{out: out, start: time.Now()} }

func (n *narrator) title(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, _ = fmt.Fprintf(n.out, format+"\n", args...)
}

func (n *narrator) scene(title string) { n.title("\n%s", title) }

func (n *narrator) line(who, format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	text := []rune(fmt.Sprintf("%7.2f s  %-8s  %s",
		time.Since(n.start).Seconds(), who, fmt.Sprintf(format, args...)))
	if len(text) > columns {
		text = append(text[:columns-3], []rune("...")...)
	}
	_, _ = fmt.Fprintln(n.out, string(text))
}

// event says what a worker has told or what became of it.
func (n *narrator) event(e event) {
	switch e.Kind {
	case elected:
		n.line(e.who, "leads, under token %d", e.Token)
	case waiting:
		n.line(e.who, "waits: %s leads, under token %d", nameOf(e.Holder), e.Token)
	case lost:
		n.line(e.who, "has lost its term with token %d: %s",
			e.Token, strings.TrimPrefix(e.Cause, leader.ErrLost.Error()+": "))
	case resigned:
		n.line(e.who, "resigns, token %d", e.Token)
	case checked:
		n.line(e.who, "has checked that it leads (token %d), and is about to write", e.Token)
	case woke:
		n.woke(e)
	case exited:
		n.line(e.who, "is gone: %s", e.Cause)
	default: // trouble that the library reports and rides out
		n.line(e.who, "%s: %s", strings.ReplaceAll(e.Kind, "_", " "), e.Cause)
	}
}

func (n *narrator) woke(e event) {
	if e.Refused {
		n.line(e.who, "makes its guarded write, and is refused: ErrLost")
	} else {
		n.line(e.who, "makes its guarded write, and is NOT refused with ErrLost (error: %q)", e.Cause)
	}
	if e.RefusedDB {
		n.line(e.who, "asks the database itself, and is refused too")
	}
	if e.Ended {
		n.line(e.who, "sees that the context of its work has ended: it steps down")
	}
}

// nameOf cuts off the random part that makes a holder unique.
func nameOf(holder string) string {
	name, _, _ := strings.Cut(holder, ":")
	return name
}

package words

import (
	"fmt"
	"io"
	"sync"
)

// A Voice writes what pgleader does while it runs, a line for each thing. Its methods may be called
// at the same time.
type Voice struct {
	Out   io.Writer
	Quiet bool // leaves out what goes as it should

	mu      sync.Mutex
	advised string // the last hint
}

// Say tells what goes as it should. Job is "" for what concerns all jobs.
func (v *Voice) Say(job, format string, args ...any) {
	if !v.Quiet {
		v.Warn(job, format, args...)
	}
}

// Warn tells what does not go as it should.
func (v *Voice) Warn(job, format string, args ...any) {
	prefix := "pgleader: "
	if job != "" {
		prefix += Name(job) + ": "
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	fmt.Fprintf(v.Out, "%s%s\n", prefix, fmt.Sprintf(format, args...))
}

// Advise tells what to do about the warning before it, unless that was the advice before. An empty
// hint says nothing.
func (v *Voice) Advise(hint string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if hint != "" && hint != v.advised {
		v.advised = hint
		fmt.Fprintf(v.Out, "pgleader: hint: %s\n", hint)
	}
}

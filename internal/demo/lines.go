package main

import "github.com/pgleader/pgleader/leader"

// A line is what a worker tells the demo: one JSON object a line on its standard output.
type line struct {
	Kind   string `json:"kind"`             // a leader.EventKind, or one of the kinds below
	Holder string `json:"holder,omitempty"` // who leads, for waiting
	Token  int64  `json:"token,omitempty"`
	Cause  string `json:"cause,omitempty"`

	// Of woke: what became of the write that the worker was about to make when it was stopped.
	Refused   bool `json:"refused,omitempty"`    // Guard returned ErrLost
	RefusedDB bool `json:"refused_db,omitempty"` // the database by itself refuses it too
	Ended     bool `json:"ended,omitempty"`      // work's context ended with the cause ErrLost
}

const (
	checked = "checked" // the worker has seen that it leads, and is about to write
	woke    = "woke"    // it has gone on from there
	exited  = "exited"  // said by the demo: the process is gone
)

const (
	elected  = string(leader.EventElected)
	lost     = string(leader.EventLost)
	resigned = string(leader.EventResigned)
	waiting  = string(leader.EventWaiting)
)

// What the demo tells a worker, on its standard input. The end of the input means that the demo is
// gone, and ends the worker.
const (
	pause  = "pause" // check that you lead, say so, and wait for resume before you write
	resume = "resume"
)

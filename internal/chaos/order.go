//go:build unix

package main

import "time"

// An order is what a worker process is told when it starts.
type order struct {
	Worker   string // name and incarnation
	Driver   string
	URL      string // through the worker's own proxy
	ClockURL string // past it: only to ask for the time
	TTL      time.Duration
	Look     time.Duration
	Jobs     []string
	SlotJobs []string
	Offset   time.Duration // of the schedule's slots from the full second; each history has its own
	Catch    string
	Repeat   bool
	Seed     uint64
	First    int64 // the first value to write: no two incarnations write the same
}

const orderEnv = "PGLEADER_CHAOS_ORDER"

// Commands to a worker, one a line on its standard input, with an argument in milliseconds. The end
// of the input ends the worker.
const (
	grab = "grab" // hold every connection of the pool for so long
	step = "step" // set the wall clock that the library sees forward, or back
)

const (
	slotEvery = time.Second
	poolSize  = 5
)

// everySecond is a schedule.
type everySecond struct{ offset time.Duration }

func (s everySecond) Next(after time.Time) time.Time {
	return after.Add(-s.offset).Truncate(slotEvery).Add(slotEvery + s.offset)
}

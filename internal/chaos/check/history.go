// Package check judges what the workers of a chaos run did. It knows the promises of
// docs/guarantees.md, and nothing of the code that is to keep them. Its input is what the workers
// said, and what triggers in the database saw.
package check

import "time"

// Kinds of records. A worker writes a record when it has happened, so a process that is killed
// leaves a true beginning of its story.
const (
	Campaign = "campaign" // it begins to ask for the job
	Elected  = "elected"  // it leads under Token
	Begin    = "begin"    // work begins under Token
	// Its context was alive after the database's clock showed Before. Whether at After is not known.
	Tick     = "tick"
	Writing  = "writing" // it begins a guarded write of Value
	Written  = "write"   // a guarded write of Value, which found Read, has ended with Outcome
	End      = "end"     // work is about to return
	Lost     = "lost"
	Resigned = "resigned"
	Stall    = "stall" // the whole process did not run from From to At
	Looked   = "look"  // an observer saw Token's lease, live
	Dismiss  = "dismiss"
	Final    = "final" // the observer read Read from the register, when all was over
	Failure  = "failure"
)

// Outcomes of a guarded write.
const (
	OK      = "ok"      // it committed
	Refused = "refused" // the guard said that the term is over
	Failed  = "failed"  // something else failed before the commit
	Unknown = "unknown" // the answer to the commit is not known
)

// A Record is one line of a worker's story. From and At are of its own clock, Before and After of
// the database's.
type Record struct {
	Worker  string    `json:"worker,omitempty"` // name and incarnation
	Kind    string    `json:"kind"`
	Job     string    `json:"job,omitempty"`
	Token   int64     `json:"token,omitempty"`
	From    time.Time `json:"from,omitzero"`
	At      time.Time `json:"at"`
	Before  time.Time `json:"before,omitzero"`
	After   time.Time `json:"after,omitzero"`
	Value   int64     `json:"value,omitempty"`
	Read    int64     `json:"read,omitempty"`
	Outcome string    `json:"outcome,omitempty"`
	Cause   string    `json:"cause,omitempty"`
}

// A LeaseChange is one change of a lease row, as a trigger saw it. Seq orders changes and writes.
type LeaseChange struct {
	Seq                          int64
	At                           time.Time
	Op                           string // INSERT, UPDATE or DELETE
	Job                          string
	OldHolder, Holder            string
	OldToken, Token              int64
	OldAcquired, Acquired        time.Time
	OldRenewed, Renewed          time.Time
	OldExpires, Expires          time.Time
	byOperator, begins, releases bool // worked out by sort
}

// A Write is a guarded write that committed.
type Write struct {
	Seq          int64
	Job, Worker  string
	Token, Value int64
}

// A SlotChange is one change of a slot row, as a trigger saw it.
type SlotChange struct {
	Seq               int64
	At                time.Time
	Op                string
	Job               string
	Slot              time.Time
	OldState, State   string
	OldToken, Token   int64
	OldAttempt, Tries int
}

// An Effect is what a slot's work wrote in the transaction that completed the slot.
type Effect struct {
	Job   string
	Slot  time.Time
	Token int64
}

// A Pause is when a process was stopped from outside, by the database's clock.
type Pause struct {
	Worker   string
	From, To time.Time
}

// Timing is what the promises depend on.
type Timing struct {
	TTL, Look, Margin time.Duration
	SlotEvery         time.Duration
	RepeatFailed      bool
}

// A History is everything about one run.
type History struct {
	Seed     uint64
	Timing   Timing
	Jobs     []string      // led by Run
	SlotJobs []string      // led by RunSchedule
	Skew     time.Duration // what to add to a process's clock to get the database's
	Operator string        // how the holder's name begins that Dismiss leaves
	Records  []Record
	Leases   []LeaseChange
	Writes   []Write
	Slots    []SlotChange
	Effects  []Effect
	Pauses   []Pause
	Healed   time.Time     // when the last fault was over, by the database's clock
	Grace    time.Duration // what liveness may take beyond the promise: machines are busy
}

// A Report is the verdict.
type Report struct {
	Violations []string
	StaleTicks int // of a process that was stopped from outside, before it noticed
	Stalled    int // the same, of a process that the machine did not run in time
	Terms      int
	Ticks      int
	Writes     int
	Refused    int
	Slots      int
	Recovery   time.Duration // from Healed to the first tick of the job that came last
	Undecided  int           // partitions whose linearization was not found in time
}

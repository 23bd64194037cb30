package schedule

import "errors"

var (
	// ErrSchedule says that a schedule never comes, or does not advance, or that a policy cannot be
	// kept.
	ErrSchedule = errors.New("schedule: invalid schedule")

	// ErrSlotTime says that RunSlot or Rerun was given the zero time, or one outside the years 1970 to
	// 9999.
	ErrSlotTime = errors.New("schedule: invalid slot time")

	// ErrNoSlot says that Rerun found no record of the slot, or found it running.
	ErrNoSlot = errors.New("schedule: the slot is not on record, or it is running")

	// ErrSlotDecided says that Slot.Complete came too late: the attempt is finished already.
	ErrSlotDecided = errors.New("schedule: the slot is decided")

	// ErrNotStarted is for work to return when it has done nothing, as in a program that is about to
	// end. The slot is given back: the attempt does not count, and the next leader runs it.
	ErrNotStarted = errors.New("schedule: the work was not started")
)

var (
	errNoWork      = errors.New("schedule: work is nil, want a function")
	errUncommitted = errors.New("schedule: the transaction that completes the slot did not commit")
	errPanicked    = errors.New("schedule: the work panicked, or ended its goroutine")

	// errNotLive says that the database does not know the term any more, or set its clock back, and
	// this process cannot know it yet.
	errNotLive = errors.New("schedule: the slot could not be started: its term is over, " +
		"or its time has not come again")

	// errUnrecorded says that a slot's end could not be recorded: the term is given up, and the slot
	// left to the next leader.
	errUnrecorded = errors.New("schedule: the end of the slot could not be recorded")

	// errTermOver says that the term ended while the schedule goes on.
	errTermOver = errors.New("schedule: the term is over")
)

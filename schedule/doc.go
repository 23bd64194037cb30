// Package schedule runs a job once for every slot of its schedule, on one of the instances that
// have it, and keeps a record of each.
//
// For most use cases, call [Scheduler.Run] on every instance: one of them leads the job and runs
// its slots, until its context ends. [Scheduler.RunDue] is for a program that cron starts: it runs
// what is due, and returns what it found and ran. [Scheduler.RunSlot] runs one slot that you name,
// or waits for the instance that does, and returns whether it was this one. RunDue and RunSlot
// return what your work returned; Run records it and goes on. Package migrations creates the
// tables.
//
//	twoAM, err := cron.ParseStandard("0 2 * * *") // github.com/robfig/cron/v3
//	elector, err := leader.New(db, leader.Config{})
//	scheduler, err := schedule.New(elector, schedule.Config{})
//	nightly := schedule.InZone(twoAM, paris)
//	err = scheduler.Run(ctx, "nightly-report", nightly, schedule.Policy{}, report)
//
// # Slots
//
// A slot is one scheduled occurrence of a job: an instant, to the microsecond. The database's clock
// says when it has come, never an instance's. A lease alone does not run a job once: a short run is
// over before another instance's clock shows 02:00. So every slot has a row in the table
// leader_slot, started and finished under the fencing token of a term of package leader.
//
//	         claimed             work returned nil, or Complete committed
//	(no row) -------> running ------------------------------------------> done
//	    |                | \
//	    |                |  `--> failed      work returned an error; not run again by itself
//	    |                `-----> abandoned   its term ended, or a shutdown: run again, up to Attempts
//	    `--> missed                          nobody could start it in time, or a later one was due
//
//	done, failed, abandoned, missed --- Rerun ---> requested ---> running
//
// # What happens once
//
// At any moment one attempt of a slot at most runs under a live term, and one at most is recorded
// as done. A process that dies in the middle leaves its slot to the next leader, which runs it
// again: whatever the work had done by then is done twice, unless it is undone with it.
// [Slot.Complete] finishes the slot inside your own transaction: the report's rows and "this slot
// is done" commit together, or not at all.
package schedule

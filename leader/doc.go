// Package leader elects one of several processes to do a job, on the Postgres database that they
// use already.
//
// For most use cases, call [Elector.Run]: it waits until this process leads the job, calls your
// function under a [Term], and calls it again after a loss. [Elector.TryRun] is for a program that
// has its own ticker: it does the work now if it can lead, or says who leads instead.
// [Elector.Campaign] and [Elector.TryAcquire] give you the term itself. Package migrations creates
// the tables. To run a job once for every slot of a schedule, use package schedule.
//
// # Terms
//
// A job is what is led, and has a name. A lease is its row in the table leader_lease: the holder
// leads the job until the row expires by the database's clock. A term is one unbroken tenure. Each
// has a token, greater than those of all terms of the job before it.
//
//	           elected             Term.Resign
//	candidate ---------> live term -----------> resigned: the lease is released
//	    ^                    |
//	    `--- Run --- lost <--'  no renewal in time, or another process has the lease: ErrLost
//
// # The trust window
//
//	process   sent |-------- trusted --------| stopped
//	database     |------------ lease live ----------| free
//
// A term ends at sent + TTL - TTL/10 - StopWithin, where sent is when its last successful renewal
// left. Sent, not answered: the database counts the TTL from some moment in between. Both clocks of
// the machine count, the monotonic and the wall clock, and the earlier end holds, because a
// suspended machine stops the first. A timer then ends the term's context, whatever a query, a
// driver or the work is doing. Only after the lease has ended can a successor be elected.
//
// For those who know client-go: TTL is its LeaseDuration, TTL minus the margin its RenewDeadline,
// RenewEvery and RetryEvery are the RetryPeriod of a leader and of a candidate. Campaign, Resign
// and Observe are etcd's.
//
// # What this does not do
//
// A process can be paused between looking at its context and acting on it, for longer than the TTL.
// It then acts as a stale leader, and no election can prevent that. [Term.Guard] can, for writes to
// the same database; for others pass [Term.Token] along and have the receiver refuse an older one.
package leader

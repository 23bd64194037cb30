// Package leader elects one of several processes to do a job, on the Postgres database that they use already.
//
// For most use cases, use [Elector.Run]: it waits until this process leads the job, calls your function, and takes care of
// everything that can happen meanwhile.
//
// # Terms
//
// A job is what is led, and has a name. A lease is its row in the table leader_lease: the holder leads the job until the row
// expires by the database's clock. A term is one unbroken tenure, from an election to its loss or resignation. Each
// has a token, greater than those of all terms of the job before it.
//
// # The trust window
//
// A process may take itself for the leader from its election until TTL minus a margin of TTL/10 after it sent the last
// renewal that succeeded. Sent, not answered: the database counts the TTL from some moment in between. Both clocks of the
// machine count, the monotonic and the wall clock, and the earlier end holds, because a suspended machine stops the first.
// At the end of the window a timer ends the term's context, whatever a query, a driver or the work is doing. The lease
// ends a margin later, and only then can a successor be elected.
//
// For those who know client-go: TTL is its LeaseDuration, TTL minus the margin its RenewDeadline, RenewEvery and RetryEvery are the RetryPeriod
// of a leader and of a candidate. Campaign, Resign and Observe are etcd's.
//
// # What this does not do
//
// A process can be paused between looking at its context and acting on it, for longer than the TTL. It then acts as a
// stale leader, and no election can prevent that. [Term.Guard] can, for writes to the same database; for others pass
// [Term.Token] along and have the receiver refuse an older one.
package leader

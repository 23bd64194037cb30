// Package contract has the tests of what docs/guarantees.md promises, on a real PostgreSQL, over
// lib/pq and pgx. It has no other code.
//
// The name of a file says which promise its tests show:
//
//	one_leader_*          1. at most one holder's lease is live
//	in_time_*             2. a term's context ends before a successor can start
//	guard_*               3. a guarded transaction never commits beside a successor's
//	tokens_*              4. tokens only grow
//	never_brought_back_*  5. a lease is never brought back
//	nobody_by_accident_*  6. nobody leads by accident
//	own_process_*         7. work is not overtaken by its own process
//	leader_again_*        8. there is a leader again
//	costs_little_*        9. it costs little
//	slots_*               10. a slot is decided once
//	failover_*            what holds when a standby is promoted
//	server_*, pooler_*    what holds whatever the server or the pooler does
//	rights_*, imports_*   what it needs of a role, and of other modules
//	reports_*             what it tells about who leads
//	helpers_*             no tests
//
// The tests of promise 11, about commands, are in cmd/pgleader and internal/child. Tests that need
// no database stand beside their package.
//
//	go run ./internal/pgtest/with -- go test -race -parallel 4 ./internal/contract
//
// runs them all on a throwaway server, and with -run TestName one. PGLEADER_PGBOUNCER=transaction,
// or session, puts PgBouncer in between for those that can tell the difference; make test-pgbouncer
// runs both.
//
// forEachDriver gives a test a fresh database for each driver. What a process does that is killed
// or stopped is one of the programs in helpers_programs_test.go, run by the test binary itself.
package contract

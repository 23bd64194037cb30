package main

// Where the mutants of the SQL are: the generated code has the text that runs.
const (
	leaseSQL = "db/lease.sql.go"
	slotSQL  = "db/slot.sql.go"
)

func unit(run string) finder     { return finder{pkg: "./leader", run: run} }
func slots(run string) finder    { return finder{pkg: "./schedule", run: run} }
func contract(run string) finder { return finder{pkg: "./internal/contract", run: run} }
func chaos(histories int) finder { return finder{histories: histories} }

// mutants are bugs that other libraries had, and those that a hasty change would make.
var mutants = []mutant{
	{
		"renewal trusted from its reply", "2: a context ends before a successor can start",
		[]edit{{"leader/renewal.go", "", "found, r.trust(sent))", "found, r.trust(r.now()))"}},
		unit("TestTrustIsCountedFromSendingTheRenewal"),
	},
	{
		"claim trusted from its reply", "2",
		[]edit{{"leader/claim.go", "", "answer.token, answer.sent)", "answer.token, e.now())"}},
		unit("TestTrustIsCountedFromSendingTheClaim"),
	},
	{
		"no margin", "2",
		[]edit{{"leader/config.go", "", "reserve + c.StopWithin", "c.StopWithin"}},
		unit("TestTrustIsCountedFromSendingTheRenewal"),
	},
	{
		"StopWithin ignored", "2",
		[]edit{{"leader/config.go", "", "reserve + c.StopWithin", "reserve"}},
		unit("TestTermEndsEarlierByTheTimeThatWorkNeedsToStop"),
	},
	{
		"wall clock ignored", "2",
		[]edit{{"leader/trust.go", "", "|| !now.wall.Before(i.wall)", "|| false"}},
		unit("TestSuspendedMachineLosesItsTermSoonAfterWaking"),
	},
	{
		"no deadline for a renewal", "2",
		[]edit{{
			"leader/renewal.go", "", "min(r.callLimit, last.Sub(sent.mono)))",
			"1000*r.callLimit+0*last.Sub(sent.mono))",
		}},
		unit("TestHangingRenewalIsTriedAgainOnAnotherConnection"),
	},
	{
		"watchdog waits for the query", "2",
		[]edit{
			{
				"leader/watchdog.go", "", "// A watchdog keeps",
				"var querying sync.Mutex\n\n// A watchdog keeps",
			},
			{
				"leader/watchdog.go", "distrust() {", "now := w.now()",
				"querying.Lock()\n\tdefer querying.Unlock()\n\tnow := w.now()",
			},
			{
				"leader/renewal.go", "", "\tfound, err := pgcall.Call(",
				"\tquerying.Lock()\n\tfound, err := pgcall.Call(",
			},
			{
				"leader/renewal.go", "found, err := pgcall.Call(", "\tif err != nil {\n",
				"\tquerying.Unlock()\n\tif err != nil {\n",
			},
			{
				"internal/pgcall/call.go", "answers <- a\n\t}()", "case <-ctx.Done():",
				"case <-make(chan struct{}):",
			},
		},
		unit("TestTermEndsInTimeWhateverTheDriverDoes"),
	},
	{
		"driver trusted with deadlines", "2, 8: a leader again",
		[]edit{{
			"internal/pgcall/call.go", "answers <- a\n\t}()", "case <-ctx.Done():",
			"case <-make(chan struct{}):",
		}},
		unit("TestHangingRenewalIsTriedAgainOnAnotherConnection"),
	},
	{
		"a lease freed as soon as the clock is set back", "2",
		[]edit{{
			"leader/standstill.go", "", "return l.Live() && asked.Sub(seen.since) > l.granted(s.ttl)",
			"return true",
		}},
		unit("TestLeaseIsNotFreedWhileItsHolderMayBelieveInIt"),
	},
	{
		"a lease freed that was renewed meanwhile", "2",
		[]edit{{
			leaseSQL, "const freeLease ", "AND l.renewed_at = $3",
			"AND $3::timestamptz IS NOT NULL",
		}},
		contract("TestFreeLeaseEndsOnlyALeaseThatStandsStill"),
	},
	{
		"a term without a row is kept", "2, 5",
		[]edit{{
			"leader/renewal.go", "case rowGone:", "lost = append(lost, t)",
			"renewed = append(renewed, t)",
		}},
		unit("TestRenewalWithoutRowEndsOnlyItsTerm|TestRenewalOfASingleTermWithoutRowEndsIt"),
	},
	{
		"renewal ignores the token", "5: a lease is never brought back",
		[]edit{{leaseSQL, "const renewLease ", "AND token = $4", "AND $4::bigint > 0"}},
		contract("TestRenewalAndReleaseMatchTheExactTerm"),
	},
	{
		"renewal of a lease that has ended", "5",
		[]edit{{leaseSQL, "const renewLease ", "AND expires_at > clock_timestamp()", ""}},
		contract("TestRenewalOfALeaseThatHasEndedChangesNothing"),
	},
	{
		"renewal of several leases that have ended", "5",
		[]edit{
			{leaseSQL, "const renewLeases ", "AND l.expires_at > clock_timestamp()", ""},
			{leaseSQL, "false AS renewed", "AND l.expires_at > clock_timestamp()", ""},
		},
		contract("TestRenewalOfALeaseThatHasEndedChangesNothing"),
	},
	{
		"renewal as an upsert", "5",
		[]edit{{
			leaseSQL, "const renewLease ", `UPDATE leader_lease
SET renewed_at = clock_timestamp(),
    expires_at = clock_timestamp() + make_interval(secs => $1::float8)
WHERE job_name = $2
  AND holder = $3
  AND token = $4
  AND expires_at > clock_timestamp()`,
			`INSERT INTO leader_lease AS l
VALUES ($2, $3, $4, clock_timestamp(), clock_timestamp(),
    clock_timestamp() + make_interval(secs => $1::float8))
ON CONFLICT (job_name) DO UPDATE
SET renewed_at = excluded.renewed_at, expires_at = excluded.expires_at
WHERE l.holder = excluded.holder AND l.token = excluded.token AND l.expires_at > clock_timestamp()`,
		}},
		contract("TestDeletedRowEndsTermIsNeverRecreatedByRenewalAndStartsTokenAgain"),
	},
	{
		"release matches the name only", "5",
		[]edit{
			{leaseSQL, "const releaseLease ", "AND holder = $2", "AND $2::text <> ''"},
			{leaseSQL, "const releaseLease ", "AND token = $3", "AND $3::bigint > 0"},
		},
		contract("TestLateResignationLeavesSuccessorAlone"),
	},
	{
		"row deleted on release", "4: tokens only grow",
		[]edit{{
			leaseSQL, "const releaseLease ", "UPDATE leader_lease\n    SET expires_at = clock_timestamp()",
			"DELETE FROM leader_lease",
		}},
		contract("TestTokenGrowsAcrossResignationExpiryAndLoss"),
	},
	{
		"token kept at a takeover", "4",
		[]edit{{
			leaseSQL, "const acquireLease ", "ELSE greatest(l.token, leader_token_floor()) + 1",
			"ELSE greatest(l.token, leader_token_floor())",
		}},
		contract("TestTokenGrowsAcrossResignationExpiryAndLoss"),
	},
	{
		"now() in AcquireLease", "1: one live lease",
		[]edit{{
			leaseSQL, "const acquireLease ", "expires_at  = clock_timestamp() +",
			"expires_at  = now() +",
		}},
		contract("TestClaimInAnOldTransactionCountsFromNow"),
	},
	{
		"now() in RenewLease", "1",
		[]edit{{
			leaseSQL, "const renewLease ", "expires_at = clock_timestamp() +",
			"expires_at = now() +",
		}},
		contract("TestWaitForRowLockDoesNotCutTheLease"),
	},
	{
		"takeover a tenth of the TTL early", "1, 2",
		[]edit{{
			leaseSQL, "const acquireLease ", "(l.expires_at <= clock_timestamp() OR",
			"(l.expires_at - (l.expires_at - l.renewed_at) / 10 <= clock_timestamp() OR",
		}},
		chaos(24),
	},
	{
		"locked rows waited for in a claim", "9: it costs little",
		[]edit{{leaseSQL, "const acquireLease ", "FOR UPDATE SKIP LOCKED", "FOR UPDATE"}},
		contract("TestWaitForRowLockDoesNotCutTheLease"),
	},
	{
		"guard without the unique index", "3: a guarded transaction never commits beside a successor's",
		[]edit{{
			"migrations/0001_create_leader_lease.up.sql", "",
			"    CONSTRAINT leader_lease_job_name_token_key UNIQUE (job_name, token),\n", "",
		}, {
			leaseSQL, "const acquireLease ", "FOR UPDATE SKIP LOCKED", "FOR NO KEY UPDATE SKIP LOCKED",
		}},
		contract("TestGuardUnderEveryIsolation"),
	},
	{
		"guard without a lock", "3",
		[]edit{{leaseSQL, "const guardLease ", "FOR KEY SHARE", ""}},
		contract("TestGuardUnderEveryIsolation"),
	},
	{
		"dismissal frees the job at once", "2",
		[]edit{{
			leaseSQL, "const dismissLease ", "token  = token + 1",
			"token  = token + 1, expires_at = clock_timestamp()",
		}},
		chaos(24),
	},
	{
		"resigned before work has returned", "7: work is not overtaken by its own process",
		[]edit{{
			"leader/run.go", "", "defer cancel(nil)",
			"defer cancel(nil)\n\tdefer context.AfterFunc(ctx, func() { _ = term.Resign() })()",
		}},
		unit("TestLeaseIsHeldUntilWorkThatIgnoresItsContextReturns"),
	},
	{
		"a lost answer is not asked for again", "6: nobody leads by accident",
		[]edit{{"leader/claim.go", "", "maxClaims  = 3 ", "maxClaims  = 1 "}},
		unit("TestLostAnswerToAClaimIsAskedForAgain"),
	},
	{
		"slot claimed without a term", "10: a slot is decided once",
		[]edit{
			{slotSQL, "const claimSlot ", "AND l.holder = $2", "AND $2::text <> ''"},
			{slotSQL, "const claimSlot ", "AND l.token = $3", "AND $3::bigint > 0"},
			{slotSQL, "const claimSlot ", "AND l.expires_at > clock_timestamp()", ""},
		},
		contract("TestSlotIsBegunAndFinishedByTheRules"),
	},
	{
		"slot finished under any token", "10",
		[]edit{{slotSQL, "const finishSlot ", "AND token = $6", "AND $6::bigint > 0"}},
		contract("TestSlotIsBegunAndFinishedByTheRules"),
	},
	{
		"done slots are begun again", "10",
		[]edit{{
			slotSQL, "const claimSlot ", "((s.state = 'abandoned'",
			"(s.state = 'done' OR (s.state = 'abandoned'",
		}},
		contract("TestSlotIsBegunAndFinishedByTheRules"),
	},
	{
		"a late end decides the next attempt", "10",
		[]edit{{slotSQL, "const finishSlot ", "AND attempt = $7", "AND $7::integer > 0"}},
		contract("TestSlotIsBegunAndFinishedByTheRules"),
	},
	{
		"a late claim begins the next attempt", "10",
		[]edit{
			{
				slotSQL, "const claimSlot ", "s.attempt = excluded.attempt - 1",
				"s.attempt >= excluded.attempt - 1",
			},
			{slotSQL, "const claimSlot ", "attempt     = excluded.attempt,", "attempt     = s.attempt + 1,"},
		},
		contract("TestSlotIsBegunAndFinishedByTheRules"),
	},
	{
		"a late request asks for another run", "10",
		[]edit{{slotSQL, "const requestSlot ", "AND attempt = $4", "AND $4::integer >= 0"}},
		contract("TestSlotIsBegunAndFinishedByTheRules"),
	},
	{
		"a late dismissal hits the successor", "2",
		[]edit{{leaseSQL, "const dismissLease ", "AND token = $3", "AND $3::bigint > 0"}},
		contract("TestLateDismissalLeavesSuccessorAlone"),
	},
	{
		"a claim is kept after a shutdown", "10",
		[]edit{{
			"schedule/claim.go", "", "if err == nil && n == 0 {",
			"return err\n\tif err == nil && n == 0 {",
		}},
		slots("TestClaimWhoseWorkNeverBeganIsGivenBack"),
	},
	{
		"a term begins again what was cut off under it", "10",
		[]edit{{
			slotSQL, "const claimSlot ", "(s.state = 'abandoned' AND s.token < excluded.token)",
			"(s.state = 'abandoned')",
		}},
		contract("TestSlotIsBegunAndFinishedByTheRules"),
	},
	{
		"a late give-back undoes the run that was requested since", "10",
		[]edit{{slotSQL, "const requestSlot ", "THEN attempt + 1", "THEN attempt"}},
		contract("TestLateStatementOfAnAttemptGivenBackDoesNotConcernTheRequestedRun"),
	},
	{
		"a slot of three days ago is taken up again", "10",
		[]edit{{"schedule/plan.go", "", "case overtaken:", "case overtaken && false:"}},
		slots("TestOnlyTheLatestSlotIsTakenUpAgain"),
	},
	{
		"an error of work is swallowed with its answer", "10",
		[]edit{{
			"schedule/turn.go", "func (r *runner) settle", "if r.unsettled == nil {",
			"if r.unsettled == nil || true {",
		}},
		slots("TestErrorOfWorkReachesTheCallerThoughItsAnswerWasLost"),
	},
	{
		"work decides the slot of a lost term", "10",
		[]edit{{
			"schedule/attempt.go", "func (s *Scheduler) conclude", "lost := slot.lost()",
			"var lost error",
		}},
		slots("TestSlotWhoseTermIsLostIsNeverDecidedByItsWork"),
	},
}

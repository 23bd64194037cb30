package pgfake

import "time"

// A Statement is one that a process has sent.
type Statement struct {
	Kind Kind
	Jobs []string
	At   time.Time
	Nth  int // of its kind on its path, from 1
}

// Renews reports whether the statement is a renewal, of one lease or of many.
func (s Statement) Renews() bool { return s.Kind == KindRenewOne || s.Kind == KindRenewMany }

// A Kind says what a statement asks for.
type Kind string

// The kinds of statements about leases.
const (
	KindAcquire   Kind = "acquire"    // AcquireLease
	KindLook      Kind = "look"       // LookLease, LookLeases
	KindList      Kind = "list"       // ListLeases
	KindRenewOne  Kind = "renew one"  // RenewLease
	KindRenewMany Kind = "renew many" // RenewLeases
	KindRelease   Kind = "release"    // ReleaseLease
	KindDismiss   Kind = "dismiss"    // DismissLease
	KindFree      Kind = "free"       // FreeLease
	KindGuard     Kind = "guard"      // GuardLease
	KindToken     Kind = "token"      // LeaseToken
)

// The kinds of statements about slots.
const (
	KindSurvey       Kind = "survey"         // SurveySlots
	KindReadSlot     Kind = "read slot"      // ReadSlot
	KindAbandon      Kind = "abandon"        // AbandonSlots
	KindClaimSlot    Kind = "claim slot"     // ClaimSlot
	KindFinishSlot   Kind = "finish slot"    // FinishSlot
	KindGiveBackSlot Kind = "give back slot" // GiveBackSlot
	KindRequestSlot  Kind = "request slot"   // RequestSlot
	KindMissSlots    Kind = "miss slots"     // MissSlots
	KindPrune        Kind = "prune"          // PruneSlots
	KindListSlots    Kind = "list slots"     // ListSlots
)

// The kinds of statements about transactions.
const (
	KindBegin    Kind = "begin"
	KindWrite    Kind = "write" // the user's own: see Write
	KindCommit   Kind = "commit"
	KindRollback Kind = "rollback"
)

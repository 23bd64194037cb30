package schedule

import "testing"

func TestWhatIsDecidedIsNotStartedAgain(t *testing.T) {
	never := Policy{}.withDefaults()
	repeat := Policy{RepeatFailed: true}.withDefaults()
	last := int32(never.Attempts)
	for _, c := range []struct {
		policy  Policy
		state   State
		attempt int32
		decided bool
	}{
		{never, "", 0, false},
		{never, StateRunning, last, false},
		{never, StateRequested, last, false},
		{never, StateDone, 1, true},
		{never, StateMissed, 0, true},
		{never, StateFailed, 1, true},
		{repeat, StateFailed, last - 1, false},
		{repeat, StateFailed, last, true},
		{never, StateAbandoned, last - 1, false},
		{never, StateAbandoned, last, true},
		{repeat, StateAbandoned, last, true},
	} {
		if got := c.policy.decided(c.state, c.attempt); got != c.decided {
			t.Errorf("RepeatFailed %v: %q after %d attempts: decided is %v, want %v",
				c.policy.RepeatFailed, c.state, c.attempt, got, c.decided)
		}
	}
}

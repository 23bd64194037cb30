package check

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"
)

// linearizable asks whether a single lease with a register under its guard would have given the
// same answers. For that there must be an order of all that the processes did, each thing somewhere
// between its beginning and its end. It looks at what the processes said alone.
func (c *checker) linearizable() {
	for _, job := range c.Jobs {
		ops := c.operations(job)
		result := porcupine.CheckOperationsTimeout(model, ops, 10*time.Second)
		switch result {
		case porcupine.Illegal:
			c.broken("%s: no order of the %d operations explains their answers", job, len(ops))
		case porcupine.Unknown:
			c.report.Undecided++
		case porcupine.Ok:
		}
	}
}

// A state is the model's whole memory: whose term it is, and what the register holds.
type state struct{ token, value int64 }

var model = porcupine.Model{
	Init: func() any { return state{} },
	Step: func(s, input, _ any) (bool, any) {
		ok, next := step(s.(state), input.(Record))
		return ok, next
	},
	Equal:             func(a, b any) bool { return a.(state) == b.(state) },
	DescribeOperation: func(input, _ any) string { return fmt.Sprintf("%+v", input) },
}

func step(s state, r Record) (bool, state) {
	switch r.Kind {
	case Elected:
		return r.Token > s.token, state{r.Token, s.value}
	// The operator's token replaces the term's. That one's process may have died before it said that
	// it led.
	case Dismiss:
		return r.Token >= s.token, state{r.Token + 1, s.value}
	case Looked:
		return r.Token >= s.token, state{r.Token, s.value}
	case Final:
		return r.Read == s.value, s
	case Written:
		switch {
		case r.Outcome == Refused || r.Outcome == Failed:
			return true, s
		case r.Token == s.token && (r.Read == s.value || r.Read == anything):
			return true, state{s.token, r.Value}
		}
		return r.Outcome == Unknown, s
	}
	return true, s
}

const (
	anything = -1        // it is not known what the write found
	never    = 1<<62 - 1 // it is not known when the write ended, if it has
)

// operations turns the records of a job into intervals. An election may have been decided at any
// time since its process began to ask for it.
func (c *checker) operations(job string) []porcupine.Operation {
	var ops []porcupine.Operation
	asking := make(map[string]time.Time)
	clients := make(map[string]int)
	// open are writes whose process was killed before it said how they ended.
	open := make(map[int64]porcupine.Operation)
	for _, r := range c.Records {
		if r.Job != job {
			continue
		}
		if _, ok := clients[r.Worker]; !ok {
			clients[r.Worker] = len(clients)
		}
		op := porcupine.Operation{
			ClientId: clients[r.Worker], Input: r, Call: r.From.UnixNano(), Return: r.At.UnixNano(),
		}
		switch r.Kind {
		case Campaign:
			asking[r.Worker] = r.At
			continue
		case Elected:
			op.Call = asking[r.Worker].UnixNano()
			if op.Call > op.Return || asking[r.Worker].IsZero() {
				op.Call = op.Return
			}
		case Writing:
			r.Kind, r.Outcome, r.Read = Written, Unknown, anything
			op.Input, op.Return = r, never
			open[r.Value] = op
			continue
		case Written:
			delete(open, r.Value)
			if r.Outcome == Unknown {
				op.Return = never // it may commit later
			}
		case Dismiss, Looked, Final:
		default:
			continue
		}
		ops = append(ops, op)
	}
	for _, op := range open {
		ops = append(ops, op)
	}
	return ops
}

package wake

import (
	"errors"
	"fmt"
	"testing"
)

type serverError string

func (e serverError) Error() string    { return "server error" }
func (e serverError) SQLState() string { return string(e) }

func TestOnlyWhatWaitingCannotMendHasAdvice(t *testing.T) {
	t.Parallel()
	down := errors.New("connection refused")
	old, starting := serverError("08P01"), serverError("57P03")
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"wrong password":                        {serverError("28P01"), true},
		"no line in pg_hba.conf":                {serverError("28000"), true},
		"unknown database":                      {serverError("3D000"), true},
		"no right to connect":                   {serverError("42501"), true},
		"unknown parameter":                     {serverError("42704"), true},
		"no LISTEN":                             {serverError("0A000"), true},
		"old PgBouncer, wrong password":         {fmt.Errorf("authentication failed: %w", old), true},
		"PgBouncer without its server":          {old, false},
		"starting or stopping":                  {starting, false},
		"terminated":                            {serverError("57P01"), false},
		"full":                                  {serverError("53300"), false},
		"standby":                               {serverError("25006"), false},
		"no answer":                             {down, false},
		"one host down, one with the wrong key": {errors.Join(down, serverError("28P01")), true},
		"one host refuses, one is starting":     {errors.Join(serverError("28000"), starting), false},
		"one host is starting, one refuses":     {errors.Join(starting, serverError("28000")), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := advice(fmt.Errorf("pqwake: %w", c.err), func(error) string { return "" })
			if (got != "") != c.want {
				t.Errorf("advice = %q, want any: %v", got, c.want)
			}
		})
	}
}

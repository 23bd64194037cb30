package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/words"
)

// What a user types is honoured or refused, never replaced by a default. So every flag with a value
// is one of these, which refuse what is outside its limits; what is to have its default is left
// out.

// durationVar adds a flag for a duration. A default of 0 is not shown: usage says what holds then.
func durationVar(
	cmd *cobra.Command, into *time.Duration, name string, value time.Duration,
	within bound[time.Duration], usage string,
) {
	*into = value
	f := cmd.Flags().VarPF(&bounded[time.Duration]{
		name: name, into: into, within: within, parse: time.ParseDuration,
		kind: "duration", example: "a duration such as 90s or 1h30m",
	}, name, "", usage)
	if value == 0 {
		f.DefValue = ""
	}
}

// numberVar adds a flag for a number, as durationVar does.
func numberVar(
	cmd *cobra.Command, into *int, name, short string, value int, within bound[int], usage string,
) {
	*into = value
	f := cmd.Flags().VarPF(&bounded[int]{
		name: name, into: into, within: within, parse: strconv.Atoi,
		kind: "int", example: "a number",
	}, name, short, usage)
	if value == 0 {
		f.DefValue = ""
	}
}

// textVar adds a flag for a text. An empty one is refused: it is what a shell makes of a variable
// that is not set.
func textVar(cmd *cobra.Command, into *string, name, value, usage string) {
	*into = value
	cmd.Flags().Var(&nonEmpty{name: name, into: into}, name, usage)
}

// A flagError is a value that a flag cannot have.
type flagError struct{ name, value, want string }

func (e *flagError) Error() string {
	value := words.Name(e.value)
	if value == "" {
		value = "empty"
	}
	return fmt.Sprintf("--%s is %s, want %s", e.name, value, e.want)
}

// badFlag says what is wrong with the flags, and where to look.
func badFlag(cmd *cobra.Command, err error) error {
	return words.WithHint(plainFlagError(err), "see '%s --help'", cmd.CommandPath())
}

// plainFlagError leaves out what cobra says around a flagError.
func plainFlagError(err error) error {
	var bad *flagError
	if errors.As(err, &bad) {
		return bad
	}
	return err
}

// A bound says what is wanted instead of a value, or "" if the value is within it.
type bound[T int | time.Duration] func(T) (want string)

func between[T int | time.Duration](least, most T) bound[T] {
	return func(v T) string {
		if v < least || v > most {
			return fmt.Sprintf("%v to %v", least, most)
		}
		return ""
	}
}

func atLeast[T int | time.Duration](least T) bound[T] {
	return func(v T) string {
		if v < least {
			return fmt.Sprintf("at least %v", least)
		}
		return ""
	}
}

func moreThanZero(d time.Duration) string {
	if d <= 0 {
		return "more than 0"
	}
	return ""
}

// judgedLater is for what the limits of other flags, or those of a cron file, decide.
func judgedLater[T int | time.Duration](T) string { return "" }

// A bounded is the value of a flag with limits.
type bounded[T int | time.Duration] struct {
	name          string
	into          *T
	within        bound[T]
	parse         func(string) (T, error)
	kind, example string
}

func (b *bounded[T]) Set(value string) error {
	v, err := b.parse(value)
	if err != nil {
		return &flagError{b.name, value, b.example}
	}
	if want := b.within(v); want != "" {
		return &flagError{b.name, value, want}
	}
	*b.into = v
	return nil
}

func (b *bounded[T]) String() string {
	if b.into == nil {
		return ""
	}
	return fmt.Sprint(*b.into)
}

func (b *bounded[T]) Type() string { return b.kind }

// A nonEmpty is the value of a flag that must not be empty.
type nonEmpty struct {
	name string
	into *string
}

func (t *nonEmpty) Set(value string) error {
	if value == "" {
		return &flagError{t.name, value, "a text, or no --" + t.name + " for the default"}
	}
	*t.into = value
	return nil
}

func (t *nonEmpty) String() string {
	if t.into == nil {
		return ""
	}
	return *t.into
}

func (t *nonEmpty) Type() string { return "string" }

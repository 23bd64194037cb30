package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/words"
)

// oneJob takes exactly one job name as the argument.
func oneJob(cmd *cobra.Command, args []string) error {
	return arguments(cmd, args, 1, 1, "a job")
}

// oneFile takes exactly one file as the argument.
func oneFile(cmd *cobra.Command, args []string) error {
	return arguments(cmd, args, 1, 1, "a file")
}

// arguments checks their number, and says what was expected.
func arguments(cmd *cobra.Command, args []string, least, most int, want string) error {
	if len(args) >= least && len(args) <= most {
		return nil
	}
	text := fmt.Sprintf("%s takes %s", cmd.CommandPath(), want)
	switch len(args) {
	case 0:
	case 1:
		text += fmt.Sprintf(", and was given %q alone", args[0])
	default:
		text += fmt.Sprintf(", and was given %d arguments", len(args))
	}
	return words.WithHint(errors.New(text),
		"write '%s', with quotes around names that have spaces; see '%s --help'",
		cmd.UseLine(), cmd.CommandPath())
}

// jobAndCommand takes a job name, and a command behind "--".
func jobAndCommand(cmd *cobra.Command, args []string) error {
	before := cmd.ArgsLenAtDash() // the arguments before "--"
	if before < 0 {
		before = len(args)
	}
	switch {
	case before == 0:
		return words.WithHint(errors.New("the job is missing"), "%s", cmd.UseLine())
	case before > 1:
		return words.WithHint(fmt.Errorf("%q is neither a job nor a command", args[1]),
			"write -- before the command: %s", cmd.UseLine())
	case len(args) == 1:
		return words.WithHint(errors.New("the command is missing"),
			"write it after --: %s", cmd.UseLine())
	}
	return nil
}

// completeWithin is what somebody who has pressed the tab key waits for.
const completeWithin = 2 * time.Second

// completeJob offers the shell the jobs that the table knows, as the first argument.
func (a *app) completeJob(cmd *cobra.Command, args []string, _ string) (
	[]cobra.Completion, cobra.ShellCompDirective,
) {
	const none = cobra.ShellCompDirectiveNoFileComp
	if len(args) > 0 {
		return nil, none
	}
	o, err := a.session()
	if err != nil {
		return nil, none
	}
	defer o.close()
	ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
	defer cancel()
	leases, err := o.Leases(ctx)
	if err != nil {
		return nil, none
	}
	var jobs []cobra.Completion
	for _, l := range leases {
		if words.Name(l.Job) == l.Job { // a completion is one line
			jobs = append(jobs, l.Job)
		}
	}
	return jobs, none
}

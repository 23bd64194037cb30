package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/leader"
)

// exitNo is the status of a command that could ask, and whose answer is no.
const exitNo = 1

// operatorTTL makes one question last up to 10 s, a third of it. The operator's elector never holds a lease.
const operatorTTL = 30 * time.Second

// completeWithin is what somebody who has pressed the tab key waits for.
const completeWithin = 2 * time.Second

// An operator asks who leads and gives orders. It never takes part in an election.
type operator struct {
	*leader.Elector
	pool *sql.DB
}

func (a *app) operator() (*operator, error) {
	pool, err := a.open()
	if err != nil {
		return nil, err
	}
	elector, err := leader.New(pool, leader.Config{
		Holder: operatorName(),
		TTL:    operatorTTL,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	return &operator{elector, pool}, nil
}

func (o *operator) close() { _ = o.pool.Close() } // nothing is left to lose

// lease looks at one job. That of a job without a row has token 0.
func (o *operator) lease(ctx context.Context, job string) (leader.Lease, error) {
	for lease, err := range o.Observe(ctx, job) {
		return lease, err
	}
	return leader.Lease{}, ctx.Err()
}

// now asks for the database's time.
func (o *operator) now(ctx context.Context, job string) (time.Time, error) {
	survey, err := db.New(o.pool).SurveySlots(ctx, job)
	if err != nil {
		return time.Time{}, fmt.Errorf("ask for the database's time: %w", err)
	}
	return survey.Now, nil
}

const operatorPrefix = "operator:"

// operatorName is what a lease that was taken away says of who did it.
func operatorName() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	} else if env := os.Getenv("USER"); env != "" {
		name = env
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	whole := operatorPrefix + name + "@" + host
	return strings.ReplaceAll(strings.ToValidUTF8(whole[:min(len(whole), 200)], ""), "\x00", "")
}

// A state is what a lease says of its job.
type state string

const (
	led       state = "led"
	dismissed state = "dismissed" // an operator took it away, and it has not expired yet
	noLeader  state = "no leader" // released or expired
	neverLed  state = "never led"
)

func stateOf(l leader.Lease) state {
	switch {
	case l.Token == 0:
		return neverLed
	case !l.Live():
		return noLeader
	case l.Dismissed() || l.Holder == "operator": // which is no elector's name: by hand, with SQL
		return dismissed
	}
	return led
}

// name is the state in JSON.
func (s state) name() string { return strings.ReplaceAll(string(s), " ", "_") }

func (s state) style() style {
	switch s {
	case led:
		return green
	case dismissed:
		return yellow
	default:
		return red
	}
}

// asOf is the database's time when it answered with the lease.
func asOf(l leader.Lease) time.Time { return l.ExpiresAt.Add(-l.Left) }

// unrenewed is for how long a leader has not renewed its lease, if that is longer than any configuration waits: a
// renewal is sent when 13/30 of the TTL are left, or earlier.
func unrenewed(l leader.Lease) (time.Duration, bool) {
	late := stateOf(l) == led && l.Left < l.ExpiresAt.Sub(l.RenewedAt)/3
	return asOf(l).Sub(l.RenewedAt), late
}

// renewedAhead is by how much the last renewal of a live lease lies in the future of the server's clock, if that is no rounding: the clock was set
// back. A leader that lives mends it by its next renewal.
func renewedAhead(l leader.Lease) (time.Duration, bool) {
	ahead := l.RenewedAt.Sub(asOf(l))
	return ahead, l.Live() && !l.Dismissed() && ahead > time.Second
}

// oneJob takes exactly one job name as the argument.
func oneJob(cmd *cobra.Command, args []string) error { return arguments(cmd, args, 1, 1, "a job") }

// arguments checks their number, and says what was expected.
func arguments(cmd *cobra.Command, args []string, least, most int, want string) error {
	if len(args) >= least && len(args) <= most {
		return nil
	}
	err := fmt.Errorf("%s takes %s, and was given %d arguments", cmd.CommandPath(), want, len(args))
	if len(args) == 1 {
		err = fmt.Errorf("%s takes %s, and was given %q alone", cmd.CommandPath(), want, args[0])
	}
	if len(args) == 0 {
		err = fmt.Errorf("%s takes %s", cmd.CommandPath(), want)
	}
	return hint(err, "write '%s', with quotes around names that have spaces; see '%s --help'", cmd.UseLine(),
		cmd.CommandPath())
}

// negative ends a command whose answer is no.
func negative(err error) error { return exitError{exitNo, err} }

// errNo is negative where the output says it all.
var errNo = negative(nil)

// completeJob offers the shell the jobs that the table knows, as the first argument.
func (a *app) completeJob(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	if len(args) > 0 {
		return nil, none
	}
	o, err := a.operator()
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
		if shown(l.Job) == l.Job { // a completion is one line
			jobs = append(jobs, l.Job)
		}
	}
	return jobs, none
}

package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/judge"
	"github.com/pgleader/pgleader/cmd/pgleader/internal/words"
	"github.com/pgleader/pgleader/leader"
)

// watchEvery is how often --watch looks again.
const watchEvery = time.Second

type statusOptions struct{ json, watch bool }

func (a *app) statusCommand() *cobra.Command {
	var options statusOptions
	cmd := &cobra.Command{
		Use:   "status [JOB]",
		Short: "show who leads what",
		Long: `status shows every job's lease, or one: who leads the job, since when, under which
fencing token, and how long the lease lasts if it is not renewed. All times are the
database's.

The state is one of
  led        the holder leads; with a remark if it is late with its renewals
  dismissed  'pgleader dismiss' took the job away; nobody leads until the time left is over
  no leader  the lease was released or expired; SINCE says when, HOLDER who led last
  never led  there is no lease: nobody has ever led a job of this name

With --json it is an array of objects with the fields job, state ("led", "dismissed",
"no_leader", "never_led"), holder, token, acquired_at, renewed_at, expires_at and
left_seconds. Times are null, holder is "" and token 0 if the job was never led.

It exits with 0; with 1 if JOB is given and nobody leads it; with 125 if it could not ask.`,
		Example: `  pgleader status
  pgleader status nightly-report || echo nobody leads it
  pgleader status --watch
  pgleader status --json | jq -r '.[] | select(.state != "led") | .job'`,
		Args: func(cmd *cobra.Command, args []string) error {
			return arguments(cmd, args, 0, 1, "at most one job")
		},
		ValidArgsFunction: a.completeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := a.session()
			if err != nil {
				return err
			}
			defer o.close()
			look := o.Leases
			if len(args) == 1 {
				look = func(ctx context.Context) ([]leader.Lease, error) {
					lease, err := o.Lease(ctx, args[0])
					return []leader.Lease{lease}, err
				}
			}
			if options.watch {
				return a.watchStatus(cmd.Context(), options, look)
			}
			leases, err := look(cmd.Context())
			if err != nil {
				return err
			}
			if err := a.printStatus(options, leases); err != nil {
				return err
			}
			if len(args) == 1 && judge.StateOf(leases[0]) != judge.Led {
				return negative(nil)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&options.json, "json", false,
		"print JSON; with --watch one line of it for every look")
	cmd.Flags().BoolVar(&options.watch, "watch", false,
		"look again every second, until interrupted, and exit with 0")
	return cmd
}

// watchStatus shows the leases again and again, in place on a terminal. Only the first look may
// fail: during an outage it goes on.
func (a *app) watchStatus(
	ctx context.Context, options statusOptions,
	look func(context.Context) ([]leader.Lease, error),
) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	terminal := term.IsTerminal(int(a.stdout.Fd())) && os.Getenv("TERM") != "dumb"
	for first := true; ; first = false {
		leases, err := look(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && first:
			return err
		}
		if terminal && !options.json {
			fmt.Fprint(a.stdout, "\x1b[H\x1b[J")
		}
		if err != nil {
			printError(a.stderr, err)
		} else if err = a.printStatus(options, leases); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

type leaseJSON struct {
	Job        string     `json:"job"`
	State      string     `json:"state"`
	Holder     string     `json:"holder"`
	Token      int64      `json:"token"`
	AcquiredAt *time.Time `json:"acquired_at"`
	RenewedAt  *time.Time `json:"renewed_at"`
	ExpiresAt  *time.Time `json:"expires_at"`
	Left       float64    `json:"left_seconds"`
}

func (a *app) printStatus(options statusOptions, leases []leader.Lease) error {
	if !options.json {
		a.printLeases(leases)
		if options.watch { // sets it apart from the next
			fmt.Fprintln(a.stdout)
		}
		return nil
	}
	rows := make([]leaseJSON, len(leases))
	for i, l := range leases {
		rows[i] = leaseJSON{
			Job:        l.Job,
			State:      jsonName(judge.StateOf(l)),
			Holder:     l.Holder,
			Token:      l.Token,
			AcquiredAt: jsonTime(l.AcquiredAt),
			RenewedAt:  jsonTime(l.RenewedAt),
			ExpiresAt:  jsonTime(l.ExpiresAt),
			Left:       l.Left.Seconds(),
		}
	}
	if options.watch {
		return writeJSONLine(a.stdout, rows)
	}
	return writeJSON(a.stdout, rows)
}

func (a *app) printLeases(leases []leader.Lease) {
	if len(leases) == 0 {
		fmt.Fprintln(a.stdout, "no job was ever led")
		return
	}
	rows := [][]cell{{
		text("JOB"), text("STATE"), text("SINCE"), text("LEFT"), text("TOKEN"), text("HOLDER"),
	}}
	for _, l := range leases {
		rows = append(rows, leaseRow(l))
	}
	writeTable(a.stdout, rows)
}

func leaseRow(l leader.Lease) []cell {
	state := judge.StateOf(l)
	since, left, holder := "-", text("-"), text(l.Holder)
	colour := red
	switch state {
	case judge.Led:
		since, left, colour = ago(l.AcquiredAt, judge.AsOf(l)), timeLeft(l), green
	case judge.Dismissed:
		left, colour = styled(words.Span(l.Left), yellow), yellow
	case judge.NoLeader:
		since, holder = ago(l.ExpiresAt, judge.AsOf(l)), styled(l.Holder, dim)
	case judge.NeverLed:
		holder = text("-")
	}
	return []cell{
		text(l.Job), styled(string(state), colour), text(since), left,
		text(strconv.FormatInt(l.Token, 10)), holder,
	}
}

// timeLeft is how long a leader's lease lasts, with a remark if something is wrong with it.
func timeLeft(l leader.Lease) cell {
	left := words.Span(l.Left)
	if ahead, setBack := judge.RenewedAhead(l); setBack {
		return styled(fmt.Sprintf("%s, renewed %s in the future", left, words.Span(ahead)), yellow)
	}
	if since, late := judge.Unrenewed(l); late {
		return styled(fmt.Sprintf("%s, not renewed for %s", left, words.Span(since)), yellow)
	}
	return text(left)
}

// ago is an instant and how long it has passed.
func ago(t, now time.Time) string {
	at := t.UTC().Format("2006-01-02T15:04:05Z")
	if t.After(now.Add(time.Second)) {
		return at + " (in the future)"
	}
	return fmt.Sprintf("%s (%s)", at, words.Span(now.Sub(t)))
}

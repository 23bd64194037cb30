package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

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
		Args:              func(cmd *cobra.Command, args []string) error { return arguments(cmd, args, 0, 1, "at most one job") },
		ValidArgsFunction: a.completeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := a.operator()
			if err != nil {
				return err
			}
			defer o.close()
			look := o.Leases
			if len(args) == 1 {
				look = func(ctx context.Context) ([]leader.Lease, error) {
					lease, err := o.lease(ctx, args[0])
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
			if len(args) == 1 && stateOf(leases[0]) != led {
				return errNo
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&options.json, "json", false, "print JSON; with --watch one line of it for every look")
	cmd.Flags().BoolVar(&options.watch, "watch", false, "look again every second, until interrupted, and exit with 0")
	return cmd
}

// watchStatus shows the leases again and again, in place on a terminal. Only the first look may fail: during an outage
// it goes on.
func (a *app) watchStatus(ctx context.Context, options statusOptions, look func(context.Context) ([]leader.Lease,
	error),
) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	inPlace := !options.json && term.IsTerminal(int(a.stdout.Fd())) && os.Getenv("TERM") != "dumb"
	for first := true; ; first = false {
		leases, err := look(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && first:
			return err
		}
		if inPlace {
			fmt.Fprint(a.stdout, "\x1b[H\x1b[J")
		}
		switch {
		case err != nil:
			printError(a.stderr, err)
		default:
			if err := a.printStatus(options, leases); err != nil {
				return err
			}
			if !options.json {
				fmt.Fprintln(a.stdout)
			}
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
		return nil
	}
	rows := make([]leaseJSON, len(leases))
	for i, l := range leases {
		rows[i] = leaseJSON{
			Job: l.Job, State: stateOf(l).name(), Holder: l.Holder, Token: l.Token,
			AcquiredAt: instant(l.AcquiredAt), RenewedAt: instant(l.RenewedAt), ExpiresAt: instant(l.ExpiresAt),
			Left: l.Left.Seconds(),
		}
	}
	if options.watch {
		encoder := json.NewEncoder(a.stdout)
		encoder.SetEscapeHTML(false)
		return encoder.Encode(rows)
	}
	return writeJSON(a.stdout, rows)
}

func (a *app) printLeases(leases []leader.Lease) {
	if len(leases) == 0 {
		fmt.Fprintln(a.stdout, "no job was ever led")
		return
	}
	rows := [][]cell{{text("JOB"), text("STATE"), text("SINCE"), text("LEFT"), text("TOKEN"), text("HOLDER")}}
	for _, l := range leases {
		s := stateOf(l)
		since, left, holder := "-", styled("-", plain), text(l.Holder)
		switch s {
		case led:
			since, left = ago(l.AcquiredAt, asOf(l)), text(span(l.Left))
			if late, is := unrenewed(l); is {
				left = styled(fmt.Sprintf("%s, not renewed for %s", span(l.Left), span(late)), yellow)
			}
			if ahead, is := renewedAhead(l); is {
				left = styled(fmt.Sprintf("%s, renewed %s in the future", span(l.Left), span(ahead)), yellow)
			}
		case dismissed:
			since, left = "-", styled(span(l.Left), yellow)
		case noLeader:
			since, holder = ago(l.ExpiresAt, asOf(l)), styled(l.Holder, dim)
		case neverLed:
			holder = text("-")
		}
		rows = append(rows, []cell{
			text(l.Job), styled(string(s), s.style()), text(since), left,
			text(strconv.FormatInt(l.Token, 10)), holder,
		})
	}
	writeTable(a.stdout, rows)
}

// ago is an instant and how long it has passed.
func ago(t, now time.Time) string {
	if t.After(now.Add(time.Second)) {
		return t.UTC().Format("2006-01-02T15:04:05Z") + " (in the future)"
	}
	return fmt.Sprintf("%s (%s)", t.UTC().Format("2006-01-02T15:04:05Z"), span(now.Sub(t)))
}

//go:build unix

// Command chaos tries to break the promises of docs/guarantees.md. Real processes compete for jobs
// on a real Postgres while they are killed, stopped, cut off, starved and deceived about the time.
// Package check judges what they and the database saw.
//
//	go run ./internal/chaos [-seed n] [-histories n] [-duration d] [-parallel n] [-restarts n]
//	go run ./internal/chaos -soak 10m [-soak-jobs n] [-soak-workers n]
//	go run ./internal/chaos -failover 10m [-ttl 500ms]
//
// Everything about a history follows from its seed, except what the machine adds. A violation is
// printed with the command that repeats it; the exit status is 1.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	seed      uint64
	histories int
	restarts  int
	parallel  int
	duration  time.Duration
	ttl       time.Duration
	limit     time.Duration
	keep      string
	first     bool

	soak        time.Duration
	soakJobs    int
	soakWorkers int
	failover    time.Duration
	burn        int
}

func flags() options {
	var o options
	flag.Uint64Var(&o.seed, "seed", 0,
		"seed of the first history; those after it count on (default: at random)")
	flag.IntVar(&o.histories, "histories", 200, "how many histories to run on a server that stays up")
	flag.IntVar(&o.restarts, "restarts", 20,
		"how many to run on a server that is restarted, fast and immediately, and whose disk stalls")
	flag.IntVar(&o.parallel, "parallel", 10, "how many run at once")
	flag.DurationVar(&o.duration, "duration", 5*time.Second, "how long faults go on in each history")
	flag.DurationVar(&o.ttl, "ttl", 0,
		"TTL of the leases (default 1s, 2s for a soak, 500ms for failovers)")
	flag.DurationVar(&o.limit, "limit", 0, "begin no history after so long (default: none)")
	flag.StringVar(&o.keep, "keep", os.TempDir(),
		"where to write the histories that violate something")
	flag.BoolVar(&o.first, "first", false, "begin no history after the first that violates something")
	flag.DurationVar(&o.soak, "soak", 0,
		"instead, run thousands of jobs in a few processes for so long")
	flag.IntVar(&o.soakJobs, "soak-jobs", 2000, "how many jobs there are in a soak")
	flag.IntVar(&o.soakWorkers, "soak-workers", 100, "how many workers there are in a soak")
	flag.DurationVar(&o.failover, "failover", 0,
		"instead, kill leaders for so long, and measure how long their jobs have none")
	flag.IntVar(&o.burn, "burn", 0, "how many processes do nothing but keep the machine busy")
	flag.Parse()
	if o.seed == 0 {
		o.seed = rand.Uint64N(1e9) + 1
	}
	if o.ttl == 0 {
		o.ttl = time.Second
		if o.soak > 0 {
			o.ttl = 2 * time.Second
		}
		if o.failover > 0 {
			o.ttl = 500 * time.Millisecond
		}
	}
	return o
}

func main() {
	if status, ok := child(); ok {
		os.Exit(status)
	}
	o := flags()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second ^C does not wait for the clean-up
	stopBurning, err := burn(o.burn)
	switch {
	case err != nil:
	case o.soak > 0:
		err = soak(ctx, os.Stdout, o)
	case o.failover > 0:
		err = failovers(ctx, os.Stdout, o)
	default:
		err = chaos(ctx, os.Stdout, o)
	}
	stopBurning()
	if err != nil {
		if ctx.Err() != nil {
			err = errors.Join(errors.New("interrupted"), err)
		}
		fmt.Fprintln(os.Stderr, "chaos: error:", err)
		os.Exit(1)
	}
}

// child runs this program in another role, if it was started for one.
func child() (status int, ok bool) {
	if text := os.Getenv(orderEnv); text != "" {
		return workerMain(text), true
	}
	if text := os.Getenv(soakEnv); text != "" {
		return soakMain(text), true
	}
	if os.Getenv(burnEnv) != "" {
		burnMain()
	}
	return 0, false
}

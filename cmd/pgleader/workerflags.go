package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/connect"
	"github.com/pgleader/pgleader/cmd/pgleader/internal/words"
	"github.com/pgleader/pgleader/cmd/pgleader/internal/worker"
	"github.com/pgleader/pgleader/leader"
)

const defaultTTL = 15 * time.Second

// workerFlags are the flags of every command that runs commands.
type workerFlags struct {
	ttl, stopWithin, drain time.Duration
	holder                 string
	quiet                  bool
}

func (f *workerFlags) add(cmd *cobra.Command) {
	durationVar(cmd, &f.ttl, "ttl", defaultTTL, between(leader.MinTTL, leader.MaxTTL),
		"how long the lease lasts without renewal: after a crash another instance takes over "+
			"within it")
	durationVar(cmd, &f.stopWithin, "stop-within", 0, judgedLater,
		"how long the command has between SIGTERM and SIGKILL when the lease is lost, 0 to kill it "+
			"at once; the term ends that much earlier, so that the command is dead before another "+
			"instance starts (default a fifth of --ttl)")
	durationVar(cmd, &f.drain, "drain-timeout", 0, moreThanZero,
		"how long the command may take to end after pgleader was asked to end, before it is ended as "+
			"after a loss; leave it out for no limit")
	textVar(cmd, &f.holder, "holder", "",
		"the name of this instance in the lease table; a random part is added (default host:pid)")
	cmd.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "print errors only")
}

// config is what the flags say. The caller closes its pool.
func (f *workerFlags) config(a *app, cmd *cobra.Command) (worker.Config, error) {
	if !cmd.Flags().Changed("stop-within") {
		f.stopWithin = f.ttl / 5
	}
	longest := worker.LongestStop(f.ttl)
	if f.stopWithin < 0 || f.stopWithin > longest {
		return worker.Config{}, words.WithHint(
			fmt.Errorf("--stop-within is %v, want 0 to %v with --ttl %v", f.stopWithin, longest, f.ttl),
			"a longer --ttl leaves more time")
	}
	pool, err := connect.Open(a.databaseURL)
	if err != nil {
		return worker.Config{}, err
	}
	return worker.Config{
		Pool:       pool,
		Voice:      &words.Voice{Out: a.stderr, Quiet: f.quiet},
		Holder:     f.holder,
		TTL:        f.ttl,
		StopWithin: f.stopWithin,
		Drain:      f.drain,
		Stdin:      a.stdin,
		Stdout:     a.stdout,
		Stderr:     a.stderr,
	}, nil
}

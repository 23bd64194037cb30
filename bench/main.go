// Command bench measures pgleader beside what people use today, side by side in one run, on lib/pq
// and pgx. It prints Markdown tables to stdout and writes every number to results.json. What counts
// are ratios within one run: other work on the machine moves all of them together.
package main

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

func main() {
	if os.Getenv(childVar) != "" {
		check(child())
		return
	}
	quick := flag.Bool("quick", false,
		"few runs, in less than two minutes: to see that everything works, not for numbers")
	only := flag.String("only", "",
		"run only these parts, separated by commas: "+strings.Join(partNames(), ", "))
	goals := flag.String("goals", "", "only compare the rows of this file with the goals")
	out := flag.String("o", "",
		"where the rows go; default results.json, with -quick results-quick.json")
	flag.Parse()
	if *out == "" && *quick {
		*out = "results-quick.json"
	} else if *out == "" {
		*out = "results.json"
	}
	if *goals != "" {
		rows, err := readRows(*goals)
		check(err)
		(&bench{rows: rows}).goals().print(os.Stdout)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	check(run(ctx, *quick, *only, *out))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// A bench is one run of the command. It is a testing.TB as far as pgtest.NewProxy needs one.
type bench struct {
	testing.TB
	quick         bool
	server        *pgtest.Server
	url           string  // of a migrated database
	admin         *sql.DB // a superuser's, for what is not measured
	hasStatements bool    // whether the extension pg_stat_statements is there
	begun         time.Time
	rows          []row
	tables        []*table
	cleanups      []func()
}

// parts run one after another, each on a server that is otherwise idle.
var parts = []struct {
	name string
	run  func(*bench, context.Context) error
}{
	{"operations", (*bench).operations},
	{"handover", (*bench).handover},
	{"failover", (*bench).failover},
	{"frozen", (*bench).frozen},
	{"guard", (*bench).guard},
	{"renewals", (*bench).renewals},
	{"waiting", (*bench).waiting},
	{"crowd", (*bench).crowd},
}

func partNames() []string {
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	return names
}

func run(ctx context.Context, quick bool, only, out string) (err error) {
	b := &bench{quick: quick, begun: time.Now()}
	b.progress("starting PostgreSQL")
	if b.server, err = start(ctx); err != nil {
		return err
	}
	defer func() {
		if closeErr := b.server.Close(); err == nil {
			err = closeErr
		}
	}()
	defer b.cleanUp()
	if b.url, err = b.server.CreateDatabase(ctx, true); err != nil {
		return err
	}
	if b.admin, err = b.pool(drivers[1], b.url, 16); err != nil {
		return err
	}
	_, err = b.admin.ExecContext(ctx, `CREATE EXTENSION pg_stat_statements`)
	if err == nil {
		_, err = b.readCounters(ctx)
	}
	b.hasStatements = err == nil
	if err != nil {
		b.progress("without pg_stat_statements: %v", err)
		b.hasStatements = false
	}
	about, err := describe(ctx, b.server, b.admin)
	if err != nil {
		return err
	}
	fmt.Printf("## pgleader beside its peers\n\n%s\n", wrapped(about+". "+peersNote))
	for _, part := range parts {
		if only != "" && !slices.Contains(strings.Split(only, ","), part.name) {
			continue
		}
		b.progress("%s", part.name)
		if err := part.run(b, ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		for _, t := range b.tables {
			t.print(os.Stdout)
		}
		b.tables = nil
		if err := writeRows(out, b.rows); err != nil {
			return err
		}
	}
	b.goals().print(os.Stdout)
	b.progress("done; every number is in %s", out)
	return nil
}

func (b *bench) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%6.1fs  %s\n", time.Since(b.begun).Seconds(), fmt.Sprintf(format, args...))
}

// scale is how often to do something: full times, or few in a quick run.
func (b *bench) scale(full, few int) int {
	if b.quick {
		return few
	}
	return full
}

// Cleanup, Helper and Fatal are what a pgtest.Proxy needs.
func (b *bench) Cleanup(f func()) { b.cleanups = append(b.cleanups, f) }
func (b *bench) Helper()          {}
func (b *bench) Fatal(args ...any) {
	panic(fmt.Sprint(args...))
}

func (b *bench) cleanUp() {
	for _, f := range slices.Backward(b.cleanups) {
		f()
	}
	b.cleanups = nil
}

// elector makes a silent one.
func elector(pool *sql.DB, cfg leader.Config) (*leader.Elector, error) {
	cfg.Logger = slog.New(slog.DiscardHandler)
	return leader.New(pool, cfg)
}

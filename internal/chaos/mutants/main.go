// Command mutants breaks the code on purpose, one bug at a time, and shows that the suite finds
// each. A test that cannot fail is worse than none.
//
//	go run ./internal/chaos/mutants [-only regexp] [-chaos n] [-v]
//
// The tree stays as it is: the compiler is told to read other text in place of a file (go help
// build, -overlay). The exit status is 1 if a mutant survives.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
)

func main() {
	only := flag.String("only", "", "regular expression for the names of the mutants to try")
	histories := flag.Int("chaos", 0,
		"look for them with so many histories of a chaos run, whatever finds them soonest")
	verbose := flag.Bool("v", false, "print what the finders say")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	survivors, err := try(ctx, *only, *histories, *verbose)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants: error:", err)
	}
	if err != nil || survivors > 0 {
		os.Exit(1)
	}
}

// try tries the mutants one after another, all on one server, and prints a line for each.
func try(ctx context.Context, only string, histories int, verbose bool) (survivors int, err error) {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return 0, err
	}
	root, err := findRoot(ctx)
	if err != nil {
		return 0, err
	}
	server, err := pgtest.Start(ctx)
	if err != nil {
		return 0, err
	}
	defer server.Close()
	fmt.Printf("mutants: on %v\n\n"+
		"| mutant | what it breaks | found by | verdict |\n|---|---|---|---|\n", server)
	tried := 0
	for _, m := range mutants {
		if !wanted.MatchString(m.name) {
			continue
		}
		if histories > 0 {
			m.finder = chaos(histories)
		}
		began := time.Now()
		verdict, out := m.try(ctx, root, server.URL)
		if ctx.Err() != nil {
			return survivors, ctx.Err()
		}
		tried++
		if verdict != found {
			survivors++
		}
		fmt.Printf("| %s | %s | %s | %s in %.0f s |\n",
			m.name, m.breaks, m.finder, verdict, time.Since(began).Seconds())
		if verbose || verdict == broken {
			fmt.Println(out)
		}
	}
	fmt.Printf("\nmutants: %d tried, %d not found\n", tried, survivors)
	return survivors, nil
}

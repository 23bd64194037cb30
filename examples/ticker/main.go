// Command ticker asks on every tick whether it leads, and does the work of the tick if so. It suits
// a program that has a ticker already and stays as it is otherwise.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"time"

	_ "github.com/lib/pq"

	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/migrations"
)

func main() {
	ctx := context.Background()
	db, err := sql.Open("postgres", os.Getenv("DATABASE_URL"))
	check(err)
	check(migrations.Up(ctx, db))
	elector, err := leader.New(db, leader.Config{})
	check(err)

	ticker := time.NewTicker(100 * time.Millisecond)
	for tick := 1; tick <= 3; tick++ {
		<-ticker.C
		// While this process leads, TryAcquire returns the same term and does not ask the database: the
		// lease is renewed in the background.
		term, ok, err := elector.TryAcquire(ctx, "cleanup")
		switch {
		case err != nil:
			fmt.Println("tick", tick, "no answer, trying again at the next:", err)
		case !ok:
			fmt.Println("tick", tick, "skipped: another process leads")
		default:
			fmt.Println("tick", tick, "done under token", term.Token())
		}
	}

	// Without this another process would have to wait for the TTL.
	if term, ok, err := elector.TryAcquire(ctx, "cleanup"); err == nil && ok {
		check(term.Resign())
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Output:
// tick 1 done under token 1
// tick 2 done under token 1
// tick 3 done under token 1

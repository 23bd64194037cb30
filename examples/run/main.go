// Command run leads a job for as long as it lives: the smallest complete program. Start it several
// times; one leads.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	_ "github.com/jackc/pgx/v5/stdlib" // or lib/pq

	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/migrations"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second ^C ends the program at once
	db, err := sql.Open("pgx", os.Getenv("DATABASE_URL"))
	check(err)
	check(migrations.Up(ctx, db))
	elector, err := leader.New(db, leader.Config{})
	check(err)
	err = elector.Run(ctx, "nightly-report", func(ctx context.Context, term *leader.Term) error {
		fmt.Println("leading under token", term.Token())
		<-ctx.Done() // your work, which stops when ctx ends
		return ctx.Err()
	})
	if ctx.Err() == nil { // else ^C or SIGTERM has ended it
		check(err)
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

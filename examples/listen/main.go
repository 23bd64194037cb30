// Command listen takes over as soon as the leader has resigned: it listens, and need not wait for
// its next look.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/leader/pgxwake" // or pqwake
	"github.com/pgleader/pgleader/migrations"
)

func main() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	url := os.Getenv("DATABASE_URL")
	db, err := sql.Open("pgx", url)
	check(err)
	check(migrations.Up(ctx, db))

	first, err := leader.New(db, leader.Config{})
	check(err)
	term, err := first.Campaign(ctx, "mail-worker")
	check(err)
	fmt.Println("the first leads under token", term.Token())

	// The second looks at the lease once an hour, unless it hears something.
	waiting := make(chan struct{}, 1)
	second, err := leader.New(db, leader.Config{
		RetryEvery: time.Hour,
		OnEvent: func(event leader.Event) {
			if event.Kind == leader.EventWaiting {
				waiting <- struct{}{}
			}
		},
	})
	check(err)
	go func() { // one for the whole process, whatever the number of jobs
		err := pgxwake.Listen(ctx, pgxwake.Config{URL: url, Wake: second.Wake})
		if ctx.Err() == nil { // what waiting can't mend, such as a wrong password
			log.Fatal(err)
		}
	}()
	go func() {
		<-waiting
		check(term.Resign())
	}()
	next, err := second.Campaign(ctx, "mail-worker")
	check(err)
	fmt.Println("the second leads under token", next.Token())
	check(next.Resign())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Output:
// the first leads under token 1
// the second leads under token 2

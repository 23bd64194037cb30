package leader_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os/signal"
	"syscall"

	"github.com/pgleader/pgleader/leader"
)

var db *sql.DB // opened with pgx or lib/pq, and migrated by migrations.Up

func ExampleElector_Run() {
	elector, err := leader.New(db, leader.Config{})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	err = elector.Run(ctx, "mail-worker", func(ctx context.Context, term *leader.Term) error {
		fmt.Println("leading under token", term.Token())
		<-ctx.Done() // your work, which stops when ctx ends
		return ctx.Err()
	})
	if ctx.Err() == nil { // else SIGTERM has ended it
		log.Print(err)
	}
}

func ExampleElector_TryRun() {
	elector, err := leader.New(db, leader.Config{})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	ran, held, err := elector.TryRun(ctx, "cleanup", func(ctx context.Context, _ *leader.Term) error {
		_, err := db.ExecContext(ctx, "DELETE FROM session WHERE expires < now()")
		return err
	})
	switch {
	case err != nil:
		log.Print(err)
	case !ran:
		log.Printf("%s is at it, for %v at least", held.Holder, held.Left)
	}
}

func ExampleTerm_Guard() {
	elector, err := leader.New(db, leader.Config{})
	if err != nil {
		log.Fatal(err)
	}
	bill := func(ctx context.Context, term *leader.Term) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() // after a commit there is nothing to roll back
		if err := term.Guard(ctx, tx); err != nil {
			return err
		}
		// From here to the commit no other process begins to lead, however long this one is paused.
		if _, err := tx.ExecContext(ctx, "UPDATE invoice SET sent = true WHERE NOT sent"); err != nil {
			return err
		}
		return tx.Commit()
	}
	if err := elector.Run(context.Background(), "billing", bill); err != nil {
		log.Fatal(err)
	}
}

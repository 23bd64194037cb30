// Command guard writes to its own table in a transaction that can't commit beside a successor's:
// Term.Guard comes first in it. It is right for a leader's own writes. For thousands a second see
// the example fence.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/migrations"
)

func main() {
	ctx := context.Background()
	db, err := sql.Open("pgx", os.Getenv("DATABASE_URL"))
	check(err)
	check(migrations.Up(ctx, db))
	_, err = db.ExecContext(ctx,
		`CREATE TABLE IF NOT EXISTS report (day date PRIMARY KEY, body text NOT NULL)`)
	check(err)
	elector, err := leader.New(db, leader.Config{})
	check(err)

	term, err := elector.Campaign(ctx, "nightly-report")
	check(err)
	check(write(ctx, db, term, "2026-03-01"))
	fmt.Println("the leader has written its report")

	check(term.Resign())
	err = write(ctx, db, term, "2026-03-02")
	fmt.Println("after its term, refused:", errors.Is(err, leader.ErrLost))
}

// write stores the report of a day. From the guard to the end of the transaction nobody else can
// begin to lead.
func write(ctx context.Context, db *sql.DB, term *leader.Term, day string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after a commit

	// A process that is paused in here holds its successor off for as long as the server lets the
	// transaction sit idle.
	_, err = tx.ExecContext(ctx, `SET LOCAL idle_in_transaction_session_timeout = '10s'`)
	if err != nil {
		return err
	}
	if err := term.Guard(ctx, tx); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO report (day, body) VALUES ($1, 'all is well')`, day)
	if err != nil {
		return err
	}
	return tx.Commit()
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Output:
// the leader has written its report
// after its term, refused: true

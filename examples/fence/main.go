// Command fence has its own table refuse stale writes: the row keeps the token it was last written
// under, and the UPDATE compares. It takes no lock on the lease, so it suits any number of writes.
// And it works for a receiver anywhere: an object store with conditional writes, another database.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/migrations"
)

const table = `
CREATE TABLE IF NOT EXISTS balance (
    account text   PRIMARY KEY,
    cents   bigint NOT NULL,
    token   bigint NOT NULL DEFAULT 0
);
INSERT INTO balance (account, cents) VALUES ('alice', 0) ON CONFLICT DO NOTHING`

func main() {
	ctx := context.Background()
	db, err := sql.Open("pgx", os.Getenv("DATABASE_URL"))
	check(err)
	check(migrations.Up(ctx, db))
	_, err = db.ExecContext(ctx, table)
	check(err)

	// Two processes, one after the other. The first one's last write arrives when the second leads.
	first := lead(ctx, db)
	fmt.Println("first, token", first.Token(), "written:", write(ctx, db, first.Token(), 100))
	check(first.Resign())
	second := lead(ctx, db)
	fmt.Println("second, token", second.Token(), "written:", write(ctx, db, second.Token(), 200))
	fmt.Println("first, token", first.Token(), "written:", write(ctx, db, first.Token(), 150))
	check(second.Resign())
}

func lead(ctx context.Context, db *sql.DB) *leader.Term {
	elector, err := leader.New(db, leader.Config{})
	check(err)
	term, err := elector.Campaign(ctx, "settle-balances")
	check(err)
	return term
}

// write reports whether the row took the write. It does not take one from a term before the one
// that wrote it last.
func write(ctx context.Context, db *sql.DB, token, cents int64) bool {
	result, err := db.ExecContext(ctx, `
		UPDATE balance
		SET cents = $1, token = $2
		WHERE account = 'alice'
		  AND token <= $2`, cents, token)
	check(err)
	n, err := result.RowsAffected()
	check(err)
	return n == 1
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Output:
// first, token 1 written: true
// second, token 2 written: true
// first, token 1 written: false

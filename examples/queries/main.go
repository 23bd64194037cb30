// Command queries uses the generated queries alone, without package leader: an existing service
// that has its own loop, its own transactions and its own opinion of retries.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/migrations"
)

const (
	job    = "import-orders"
	holder = "importer-7f3a" // unique to this process, also after a restart
	ttl    = 15              // seconds
)

func main() {
	ctx := context.Background()
	pool, err := sql.Open("pgx", os.Getenv("DATABASE_URL"))
	check(err)
	check(migrations.Up(ctx, pool))
	_, err = pool.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS imported_order (id bigint PRIMARY KEY)`)
	check(err)
	queries := db.New(pool)

	// Take the lease, on the pool: inside a transaction it would be held back until the commit.
	lease, err := queries.AcquireLease(ctx,
		db.AcquireLeaseParams{JobName: job, Holder: holder, TTLSeconds: ttl})
	check(err)
	fmt.Println("acquired:", lease.Acquired, "token:", lease.Token)

	rival, err := queries.AcquireLease(ctx,
		db.AcquireLeaseParams{JobName: job, Holder: "importer-91bc", TTLSeconds: ttl})
	check(err)
	fmt.Println("a rival acquired:", rival.Acquired, "because of:", rival.Holder)

	// Work, in the service's own transaction.
	check(importOrder(ctx, pool, lease.Token, 1))
	fmt.Println("imported order 1")

	// Renew, at a third of the TTL or so. No row changed means that the term is over.
	n, err := queries.RenewLease(ctx,
		db.RenewLeaseParams{JobName: job, Holder: holder, Token: lease.Token, TTLSeconds: ttl})
	check(err)
	fmt.Println("renewed leases:", n)

	// Release, and hand over to the rival.
	n, err = queries.ReleaseLease(ctx,
		db.ReleaseLeaseParams{JobName: job, Holder: holder, Token: lease.Token})
	check(err)
	fmt.Println("released leases:", n)
	rival, err = queries.AcquireLease(ctx,
		db.AcquireLeaseParams{JobName: job, Holder: "importer-91bc", TTLSeconds: ttl})
	check(err)
	fmt.Println("a rival acquired:", rival.Acquired, "token:", rival.Token)

	err = importOrder(ctx, pool, lease.Token, 2)
	fmt.Println("order 2 refused:", errors.Is(err, sql.ErrNoRows))
}

// importOrder commits only if nobody else has taken the lease.
func importOrder(ctx context.Context, pool *sql.DB, token, order int64) error {
	tx, err := pool.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after a commit
	_, err = db.New(tx).GuardLease(ctx,
		db.GuardLeaseParams{JobName: job, Holder: holder, Token: token})
	if err != nil {
		return fmt.Errorf("import order %d: %w", order, err)
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO imported_order (id) VALUES ($1)`, order)
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
// acquired: true token: 1
// a rival acquired: false because of: importer-7f3a
// imported order 1
// renewed leases: 1
// released leases: 1
// a rival acquired: true token: 2
// order 2 refused: true

// Command nightly-report writes one summary row per night, on however many instances it runs. To
// see it at work a night lasts a second here: start it on three terminals, kill one, and look at
// the table report.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"
	_ "time/tzdata" // the zone must not depend on the machine

	_ "github.com/jackc/pgx/v5/stdlib"
	cron "github.com/netresearch/go-cron"

	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/migrations"
	"github.com/pgleader/pgleader/schedule"
)

const table = `CREATE TABLE IF NOT EXISTS report (
    night   timestamptz NOT NULL,
    attempt integer     NOT NULL,
    holder  text        NOT NULL
)` // without a unique key: that there is one row per night is the schedule's work

func main() {
	real := flag.Bool("real", false, "report at 02:00 in New York instead of every second")
	last := flag.Int("nights", 0, "end after so many reports of this instance; 0: never")
	crash := flag.Int("crash", 0, "die in the middle of the n-th report of this instance; 0: never")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, done := context.WithCancel(ctx)
	db, err := sql.Open("pgx", os.Getenv("DATABASE_URL"))
	check(err)
	check(migrations.Up(ctx, db))
	_, err = db.ExecContext(ctx, table)
	check(err)

	nights, err := nightly(*real)
	check(err)
	elector, err := leader.New(db, leader.Config{
		TTL:        3 * time.Second,
		RetryEvery: 300 * time.Millisecond,
		Logger:     slog.New(slog.DiscardHandler),
	})
	check(err)
	scheduler, err := schedule.New(elector, schedule.Config{})
	check(err)
	fmt.Println("started", elector.Holder())
	reports := 0
	policy := schedule.Policy{CatchUp: schedule.CatchUpAll} // no night is left out
	work := func(ctx context.Context, slot *schedule.Slot) error {
		reports++
		err := report(ctx, db, slot, elector.Holder(), reports == *crash)
		if reports == *last {
			done()
		}
		return err
	}
	check(scheduler.Run(ctx, "nightly-report", nights, policy, work))
}

// nightly is the schedule: a cron expression that any library parses, put into its zone.
func nightly(real bool) (schedule.Schedule, error) {
	if !real {
		return cron.Every(time.Second), nil
	}
	spec, err := cron.ParseStandard("0 2 * * *")
	if err != nil {
		return nil, err
	}
	zone, err := time.LoadLocation("America/New_York")
	return schedule.InZone(spec, zone), err
}

// report writes the row and finishes the slot in one transaction: both commit, or neither does.
func report(ctx context.Context, db *sql.DB, slot *schedule.Slot, holder string, crash bool) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after a commit there is nothing to roll back
	if err := slot.Complete(ctx, tx); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO report (night, attempt, holder) VALUES ($1, $2, $3)",
		slot.Time(), slot.Attempt(), holder)
	if err != nil {
		return err
	}
	if crash {
		fmt.Println("crash", slot.Time().Format(time.RFC3339))
		die()
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	fmt.Println("report", slot.Time().Format(time.RFC3339), "attempt", slot.Attempt())
	return nil
}

// die is kill -9: nothing is released, nothing is recorded.
func die() {
	self, err := os.FindProcess(os.Getpid())
	check(err)
	check(self.Kill())
	select {}
}

func check(err error) {
	if err != nil && !errors.Is(err, context.Canceled) { // cancelled is how ^C and SIGTERM end it
		log.Fatal(err)
	}
}

package schedule_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os/signal"
	"syscall"
	"time"

	cron "github.com/netresearch/go-cron"

	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

var pool *sql.DB // opened with pgx or lib/pq, and migrated by migrations.Up

func ExampleScheduler_Run() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	elector, err := leader.New(pool, leader.Config{})
	check(err)
	scheduler, err := schedule.New(elector, schedule.Config{})
	check(err)

	twoAM, err := cron.ParseStandard("0 2 * * *")
	check(err)
	paris, err := time.LoadLocation("Europe/Paris")
	check(err)
	nightly := schedule.InZone(twoAM, paris)
	err = scheduler.Run(ctx, "nightly-report", nightly, schedule.Policy{},
		func(ctx context.Context, slot *schedule.Slot) error {
			return sendReport(ctx, slot.Time())
		})
	if ctx.Err() == nil { // else SIGTERM has ended it
		check(err)
	}
}

// A program that crontab starts every ten minutes on several hosts.
func ExampleScheduler_RunDue() {
	elector, err := leader.New(pool, leader.Config{})
	check(err)
	scheduler, err := schedule.New(elector, schedule.Config{})
	check(err)
	hourly, err := cron.ParseStandard("0 * * * *")
	check(err)
	due, err := scheduler.RunDue(context.Background(), "sync", hourly, schedule.Policy{},
		func(ctx context.Context, slot *schedule.Slot) error {
			return sendReport(ctx, slot.Time())
		})
	check(err)
	switch {
	case due.Ran > 0:
		fmt.Println("ran slot", due.Slot)
	case due.Leader.Live():
		fmt.Println("is run by", due.Leader.Holder)
	default:
		fmt.Println("nothing to do before", due.Next)
	}
}

// The report's rows and "this slot is done" commit together, or not at all.
func ExampleSlot_Complete() {
	work := func(ctx context.Context, slot *schedule.Slot) error {
		tx, err := pool.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() // after a commit there is nothing to roll back
		if err := slot.Complete(ctx, tx); err != nil {
			return err
		}
		const insert = "INSERT INTO report (night, total) SELECT $1, sum(amount) FROM sale"
		if _, err := tx.ExecContext(ctx, insert, slot.Time()); err != nil {
			return err
		}
		return tx.Commit()
	}
	_ = work // for Scheduler.Run, RunDue or RunSlot
}

func sendReport(context.Context, time.Time) error { return nil }

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

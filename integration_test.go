// Package pgleader_test tells the story of pgleader on a real PostgreSQL, from the first migration
// to a report that is written once a night. Read it from top to bottom: first the story, then the
// program of its workers, then the few helpers. internal/contract has the tests of each promise.
package pgleader_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/migrations"
	"github.com/pgleader/pgleader/schedule"
)

const (
	job = "mail-worker"

	// ttl is how long a dead leader keeps the job from others. The default is 15 s.
	ttl = 3 * time.Second
)

func TestOneLeadsAnotherTakesOverAndTheReportIsWrittenOnce(t *testing.T) {
	for _, driver := range pgtest.Drivers { // lib/pq and pgx
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			story(t, driver, pgtest.ThroughPooler(t, pgtest.NewEmptyURL(t)))
		})
	}
}

func story(t *testing.T, driver, url string) {
	ctx := t.Context()
	db := pgtest.Open(t, driver, url)

	// The tables: leader_lease has a row for each job and says who leads it, leader_slot has a row for
	// each night and says what became of it. Up makes what is missing; every program calls it first.
	check(t, migrations.Up(ctx, db))
	check(t, migrations.Up(ctx, db)) // nothing is missing: nothing happens

	// The application's own tables. The leader puts mail into the outbox, and nobody else may.
	_, err := db.ExecContext(ctx, `
		CREATE TABLE outbox  (id bigserial, token bigint);
		CREATE TABLE refused (token bigint);
		CREATE TABLE report  (night timestamptz)`)
	check(t, err)

	// Three workers start, as on three hosts. None is special: one is elected, the others wait.
	elector, err := leader.New(db, leader.Config{Holder: "onlooker"})
	check(t, err)
	workers := hire(t, driver, url, "ann", "ben", "cem")
	first := nextLeader(t, db, elector, leader.Lease{})

	// Whoever else asks is told no. That is an answer, not an error.
	if _, leads, err := elector.TryAcquire(ctx, job); leads || err != nil {
		t.Fatalf("beside the leader, TryAcquire = %v, %v", leads, err)
	}

	// The leader is killed, and can tell nobody. Its lease runs out, and one of the others takes over.
	// The fencing token of each term is greater than the one before.
	workers.signal(t, first, syscall.SIGKILL)
	second := nextLeader(t, db, elector, first)

	// That one is stopped, as when its machine is suspended. To the others it looks no different: the
	// lease runs out, and the third one takes over.
	workers.signal(t, second, syscall.SIGSTOP)
	third := nextLeader(t, db, elector, second)

	// The second one wakes up in the middle of its work, with one more mail to send, and does not know
	// that it leads no more. But its mails go out in guarded transactions, and this one is refused.
	workers.signal(t, second, syscall.SIGCONT)
	eventually(t, "the stale mail is refused", func() bool {
		return ask(t, db, `SELECT max(token) FROM refused`) == strconv.FormatInt(second.Token, 10)
	})

	// The third one is told to shut down. It sends its last mail, and only then gives the lease back:
	// its successor need not wait until it runs out. That is the second one, a candidate again.
	workers.signal(t, third, syscall.SIGTERM)
	fourth := nextLeader(t, db, elector, third)
	if name(fourth) != name(second) {
		t.Errorf("%s leads, want the last worker that is left, %s", name(fourth), name(second))
	}

	// In the outbox no term's mail comes after its successor's.
	sent := ask(t, db, `SELECT string_agg(token::text, ' ' ORDER BY id) FROM outbox`)
	want := fmt.Sprint(first.Token, second.Token, third.Token, third.Token, fourth.Token)
	if sent != want {
		t.Errorf("mail was sent under the tokens %s, want %s", sent, want)
	}

	// A lease says who, not how often: three hosts would write the report one after the other. So each
	// night is a slot, with a record of its own. Three hosts come for last night's, and one runs it.
	night := time.Now().Add(-24 * time.Hour).Truncate(24 * time.Hour)
	var ran atomic.Int32
	var hosts sync.WaitGroup
	for range 3 {
		host, err := leader.New(db, leader.Config{})
		check(t, err)
		scheduler, err := schedule.New(host, schedule.Config{})
		check(t, err)
		hosts.Go(func() {
			mine, err := scheduler.RunSlot(ctx, "nightly-report", night, reportTo(db))
			if err != nil {
				t.Error(err)
			}
			if mine {
				ran.Add(1)
			}
		})
	}
	hosts.Wait()
	if n := ask(t, db, `SELECT count(*) FROM report`); n != "1" || ran.Load() != 1 {
		t.Errorf("%s reports, and %d hosts say that they wrote one; want 1 and 1", n, ran.Load())
	}

	// In the morning somebody asks what became of it.
	scheduler, err := schedule.New(elector, schedule.Config{})
	check(t, err)
	runs, err := scheduler.History(ctx, "nightly-report", 10)
	check(t, err)
	if len(runs) != 1 || runs[0].State != schedule.StateDone || !runs[0].Slot.Equal(night) {
		t.Errorf("the record is %+v, want the night done", runs)
	}
}

// reportTo is a night's work. The report and "this night is done" commit together or not at all: of
// a host that dies in between nothing is left, and the next one writes the whole report.
func reportTo(db *sql.DB) func(context.Context, *schedule.Slot) error {
	return func(ctx context.Context, slot *schedule.Slot) error {
		return transaction(ctx, db, func(tx *sql.Tx) error {
			if err := slot.Complete(ctx, tx); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, `INSERT INTO report VALUES ($1)`, slot.Time())
			return err
		})
	}
}

// worker is the program of each worker: it leads the job whenever it can, until it gets SIGTERM.
func worker(name, driver, url string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	db, err := sql.Open(driver, url)
	if err != nil {
		return err
	}
	elector, err := leader.New(db, leader.Config{Holder: name, TTL: ttl})
	if err != nil {
		return err
	}
	return elector.Run(ctx, job, func(ctx context.Context, term *leader.Term) error {
		if err := sendMail(ctx, db, term); err != nil {
			return err
		}
		<-ctx.Done() // the term is lost, or the worker is to stop; and it has one more mail to send
		return sendMail(context.WithoutCancel(ctx), db, term)
	})
}

// sendMail sends one if nobody else leads. From Guard to the commit nobody can take over.
func sendMail(ctx context.Context, db *sql.DB, term *leader.Term) error {
	err := transaction(ctx, db, func(tx *sql.Tx) error {
		if err := term.Guard(ctx, tx); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO outbox (token) VALUES ($1)`, term.Token())
		return err
	})
	if errors.Is(err, leader.ErrLost) { // for the test to see; another worker would just stop
		_, err = db.ExecContext(ctx, `INSERT INTO refused VALUES ($1)`, term.Token())
	}
	return err
}

// transaction commits all of a change, or nothing.
func transaction(ctx context.Context, db *sql.DB, change func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after a commit there is nothing to roll back
	if err := change(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// TestMain makes each process that hire has started a worker, which ends when the test does.
func TestMain(m *testing.M) {
	name := os.Getenv("PGLEADER_TEST_WORKER")
	if name == "" {
		pgtest.Main(m)
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	err := worker(name, os.Getenv("DRIVER"), os.Getenv("DATABASE_URL"))
	if err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
	os.Exit(0)
}

// A crew is the workers by name, each a process of its own.
type crew map[string]*exec.Cmd

func hire(t *testing.T, driver, url string, names ...string) crew {
	t.Helper()
	self, err := os.Executable()
	check(t, err)
	workers := crew{}
	for _, name := range names {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(),
			"PGLEADER_TEST_WORKER="+name, "DRIVER="+driver, "DATABASE_URL="+url)
		cmd.Stderr = os.Stderr
		_, err := cmd.StdinPipe()
		check(t, err)
		check(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Kill() // it may have ended
			_ = cmd.Wait()
		})
		workers[name] = cmd
	}
	return workers
}

// signal sends one to the worker that has the lease.
func (c crew) signal(t *testing.T, lease leader.Lease, s os.Signal) {
	t.Helper()
	check(t, c[name(lease)].Process.Signal(s))
}

// name is the worker's part of the holder: a random one follows.
func name(lease leader.Lease) string {
	worker, _, _ := strings.Cut(lease.Holder, ":")
	return worker
}

// nextLeader waits for a leader under a greater token that is at work, and returns its lease.
func nextLeader(t *testing.T, db *sql.DB, elector *leader.Elector, last leader.Lease) leader.Lease {
	t.Helper()
	var next leader.Lease
	eventually(t, "a leader after "+last.Holder, func() bool {
		leases, err := elector.Leases(t.Context())
		check(t, err)
		for _, lease := range leases {
			if lease.Live() && lease.Token > last.Token {
				next = lease
			}
		}
		return ask(t, db, `SELECT max(token) FROM outbox`) == strconv.FormatInt(next.Token, 10)
	})
	return next
}

// eventually waits until it is so, for a minute at most.
func eventually(t *testing.T, what string, isSo func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !isSo(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// ask returns the answer to a query as text, "" for NULL.
func ask(t *testing.T, db *sql.DB, query string) string {
	t.Helper()
	var answer sql.NullString
	check(t, db.QueryRowContext(t.Context(), query).Scan(&answer))
	return answer.String
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

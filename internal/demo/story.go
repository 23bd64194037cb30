package main

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/migrations"
)

// A teller is the demo at work: it makes things happen to the crew and judges what comes of it.
type teller struct {
	pool     *sql.DB
	observer *leader.Elector // looks at leases, and never campaigns
	crew     *crew
	say      *narrator
	verdict  verdict
}

// All times are the database's, as in the lease itself.
const tables = `
CREATE TABLE demo_write (
    id     bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    token  bigint      NOT NULL,
    holder text        NOT NULL,
    at     timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE demo_belief (
    id     bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    token  bigint      NOT NULL,
    holder text        NOT NULL,
    at     timestamptz NOT NULL
);`

// story tells the whole of it on an empty database.
func story(ctx context.Context, url string, say *narrator) (verdict, error) {
	pool, err := sql.Open("pgx", url)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	if err := migrations.Up(ctx, pool); err != nil {
		return nil, err
	}
	if _, err := pool.ExecContext(ctx, tables); err != nil {
		return nil, fmt.Errorf("create the demo's tables: %w", err)
	}
	say.line("demo", "has applied the migrations")
	observer, err := leader.New(pool, leader.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	t := &teller{pool: pool, observer: observer, crew: newCrew(url, say), say: say}
	defer t.crew.dismiss()

	first, err := t.election(ctx)
	if err != nil {
		return t.verdict, fmt.Errorf("election: %w", err)
	}
	second, err := t.crash(ctx, first)
	if err != nil {
		return t.verdict, fmt.Errorf("kill -9: %w", err)
	}
	third, err := t.pause(ctx, second)
	if err != nil {
		return t.verdict, fmt.Errorf("SIGSTOP: %w", err)
	}
	if err := t.handover(ctx, third); err != nil {
		return t.verdict, fmt.Errorf("SIGTERM: %w", err)
	}
	if err := t.ending(ctx); err != nil {
		return t.verdict, fmt.Errorf("the records: %w", err)
	}
	if err := t.reports(ctx, url); err != nil {
		return t.verdict, fmt.Errorf("the nightly report: %w", err)
	}
	return t.verdict, nil
}

// election: three start, one leads, two wait and know for whom.
func (t *teller) election(ctx context.Context) (event, error) {
	t.say.scene("1. Three workers start")
	names := slices.Sorted(maps.Keys(drivers))
	mark := t.crew.mark()
	start, err := t.now(ctx)
	if err != nil {
		return event{}, err
	}
	for _, name := range names {
		if err := t.crew.hire(name); err != nil {
			return event{}, err
		}
	}
	first, took, err := t.succession(ctx, mark, start, "")
	for _, name := range names {
		if err == nil && name != first.who {
			err = t.waits(ctx, mark, name, first)
		}
	}
	const what, promised = "three workers start: one leads, two wait for it", "exactly one leads"
	if err != nil {
		t.verdict.holds(what, "never", promised, false)
		return event{}, err
	}
	t.verdict.holds(what, seconds(took), promised, t.crew.count(mark, elected) == 1)
	return first, t.written(ctx, first, 5)
}

const afterTTL = "the TTL and one look"

// crash: the leader is killed, and has no chance to say anything.
func (t *teller) crash(ctx context.Context, old event) (event, error) {
	t.say.scene("2. kill -9 the leader")
	mark := t.crew.mark()
	start, err := t.strike(ctx, old.who, sigKill, "kills")
	if err != nil {
		return event{}, err
	}
	next, err := t.successionInTime(ctx, mark, start, old.who,
		"kill -9 the leader: another leads", ttl+oneLook, afterTTL)
	if err != nil {
		return event{}, err
	}
	if err := t.crew.hire(old.who); err != nil {
		return event{}, err
	}
	if err := t.waits(ctx, mark, old.who, next); err != nil {
		return event{}, err
	}
	return next, t.written(ctx, next, 5)
}

// pause: the leader is stopped between its check and its write, and woken when another leads.
func (t *teller) pause(ctx context.Context, old event) (event, error) {
	t.say.scene("3. SIGSTOP the leader between its check and its write")
	mark := t.crew.mark()
	if err := t.crew.command(old.who, pause); err != nil {
		return event{}, err
	}
	if _, err := t.crew.await(ctx, mark, said(old.who, checked)); err != nil {
		return event{}, err
	}
	start, err := t.strike(ctx, old.who, sigStop, "stops")
	if err != nil {
		return event{}, err
	}
	next, err := t.successionInTime(ctx, mark, start, old.who,
		"SIGSTOP the leader: another leads", ttl+oneLook, afterTTL)
	if err != nil {
		return event{}, err
	}
	if err := t.written(ctx, next, 5); err != nil {
		return event{}, err
	}

	mark = t.crew.mark()
	// The command is in the pipe before the process wakes.
	if err := t.crew.command(old.who, resume); err != nil {
		return event{}, err
	}
	t.say.line("demo", "wakes %s (SIGCONT)", old.who)
	awake := time.Now()
	if err := t.crew.signal(old.who, sigCont); err != nil {
		return event{}, err
	}
	e, err := t.crew.await(ctx, mark, said(old.who, woke))
	if err != nil {
		return event{}, err
	}
	took := seconds(e.at.Sub(awake))
	t.verdict.holds("SIGCONT: the old leader's guarded write", took, "refused with ErrLost",
		e.Refused && e.RefusedDB)
	t.verdict.holds("SIGCONT: the context of the old leader's work", took,
		"ended with ErrLost", e.Ended)
	if err := t.waits(ctx, mark, old.who, next); err != nil {
		return event{}, err
	}
	return next, t.written(ctx, next, 15)
}

// handover: the leader is asked to go, as in every deployment.
func (t *teller) handover(ctx context.Context, old event) error {
	t.say.scene("4. SIGTERM the leader")
	mark := t.crew.mark()
	start, err := t.strike(ctx, old.who, sigTerm, "terminates")
	if err != nil {
		return err
	}
	next, err := t.successionInTime(ctx, mark, start, old.who,
		"SIGTERM the leader: another leads", oneLook, "one look")
	if err != nil {
		return err
	}
	gone, err := t.crew.await(ctx, mark, said(old.who, exited))
	if err != nil {
		return err
	}
	t.verdict.holds("SIGTERM the leader: its process", "-", "exits with 0",
		gone.Cause == "exit status 0")
	return t.written(ctx, next, 5)
}

// ending: what the workers have written must fit together, over the whole demo.
func (t *teller) ending(ctx context.Context) error {
	t.say.scene("5. What the workers have written")
	t.crew.dismiss()
	writes, err := records(ctx, t.pool, readWrites)
	if err != nil {
		return err
	}
	beliefs, err := records(ctx, t.pool, readBeliefs)
	if err != nil {
		return err
	}
	for _, i := range intervals(beliefs) {
		t.say.line("demo", "token %d: %s led from %s to %s by the database's clock",
			i.token, nameOf(i.holder),
			i.first.Format("15:04:05.000"), i.last.Format("15:04:05.000"))
	}
	for _, found := range []string{backwards(writes), overlap(beliefs)} {
		if found != "" {
			t.say.line("demo", "finds that %s", found)
		}
	}
	t.verdict.holds(fmt.Sprintf("%d guarded writes: their tokens", len(writes)), "-",
		"never go backwards", len(writes) > 0 && backwards(writes) == "")
	t.verdict.holds(fmt.Sprintf("%d terms: two leaders at one moment", len(intervals(beliefs))), "-",
		"never", len(beliefs) > 0 && overlap(beliefs) == "")
	return nil
}

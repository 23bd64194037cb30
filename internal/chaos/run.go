//go:build unix

package main

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pgleader/pgleader/internal/chaos/check"
	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

// A history is one seeded run: a crew of processes, the faults that befall it, and what was seen.
type history struct {
	seed     uint64
	self     string // this program
	db       *sql.DB
	timing   check.Timing
	jobs     []string
	slotJobs []string
	operator *leader.Elector
	plan     plan
	crew     []*member
	strict   bool // the server itself stays up
	calm     <-chan struct{}

	url        string
	connecting time.Duration // when the faults were over: on a busy machine, long

	mu      sync.Mutex
	records []check.Record
	pauses  []check.Pause // by this process's clock
	failed  []string      // what the run itself found wrong
	notes   []string
}

const operatorName = "chaos-operator"

func timing(rng *rand.Rand, o options) check.Timing {
	return check.Timing{
		TTL: o.ttl, Look: o.ttl / 4, Margin: o.ttl / 10,
		SlotEvery: slotEvery, RepeatFailed: rng.IntN(3) == 0,
	}
}

// newHistory makes everything that follows from the seed.
func newHistory(o options, s *site, seed uint64) (*history, error) {
	rng := rand.New(rand.NewPCG(seed, 0))
	h := &history{
		seed: seed, self: s.self, db: s.db, url: s.url,
		timing: timing(rng, o), strict: !s.restarts, calm: s.calm,
	}
	for i := range 1 + rng.IntN(2) {
		h.jobs = append(h.jobs, fmt.Sprintf("h%d-work-%d", seed, i+1))
	}
	h.slotJobs = []string{fmt.Sprintf("h%d-slots", seed)}
	n := 2 + rng.IntN(3)
	h.plan = newPlan(rng, n, o.duration, o.ttl)
	catch := []string{"all", "all", "latest", "skip"}[rng.IntN(4)]
	offset := within(rng, slotEvery).Truncate(time.Microsecond)
	first := rng.IntN(2)
	var err error
	h.operator, err = leader.New(s.db,
		leader.Config{Holder: operatorName, TTL: o.ttl, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	for i := range n {
		name := fmt.Sprintf("h%d-%d", seed, i+1)
		proxy, err := pgtest.StartProxy(s.url)
		if err != nil {
			h.close()
			return nil, err
		}
		h.crew = append(h.crew, &member{history: h, name: name, proxy: proxy, order: order{
			Driver: pgtest.Drivers[(i+first)%2],
			URL:    application(proxy.URL, name), ClockURL: application(s.url, "clock"),
			TTL: o.ttl, Look: h.timing.Look, Jobs: h.jobs, SlotJobs: h.slotJobs,
			Offset: offset, Catch: catch, Repeat: h.timing.RepeatFailed, Seed: seed,
		}})
	}
	return h, nil
}

func (h *history) close() {
	for _, m := range h.crew {
		m.proxy.Close()
	}
}

// run lets the plan befall the crew, waits until all is well again, ends the crew, and collects
// what there is to judge.
func (h *history) run(ctx context.Context) (check.History, error) {
	defer h.close()
	var none check.History
	for _, job := range h.jobs {
		_, err := h.db.ExecContext(ctx, "INSERT INTO chaos_register VALUES ($1, 0, 0)", job)
		if err != nil {
			return none, err
		}
	}
	for _, m := range h.crew {
		if err := m.start(); err != nil {
			return none, err
		}
	}
	stopLooking := h.look(ctx)
	h.carryOut(ctx)
	<-h.calm
	healed, skew, err := h.databaseTime(ctx)
	if err != nil {
		return none, err
	}
	h.probe(ctx)
	h.settle(ctx, healed)
	stopLooking()
	var ends sync.WaitGroup
	for _, m := range h.crew {
		ends.Go(func() {
			if !m.terminate(shutdownLimit) {
				h.fail(m.worker() + " did not end after SIGTERM")
			}
		})
	}
	ends.Wait()
	return h.collect(ctx, healed, skew)
}

// look observes the leases from outside, for the model.
func (h *history) look(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for sleep(ctx, 150*time.Millisecond) {
			for _, job := range h.jobs {
				r := check.Record{Worker: "observer", Kind: check.Looked, Job: job, From: time.Now()}
				err := h.db.QueryRowContext(ctx,
					"SELECT token FROM leader_lease WHERE job_name = $1", job).Scan(&r.Token)
				r.At = time.Now()
				if err == nil {
					h.record(r)
				}
			}
		}
	}()
	return func() { cancel(); <-done }
}

// databaseTime returns the database's time, and what to add to the clock of this machine to get it.
func (h *history) databaseTime(ctx context.Context) (now time.Time, skew time.Duration, err error) {
	// A server that was restarted has connections in the pool that it does not know, and an answer
	// that takes long tells little.
	for range 200 {
		before := time.Now()
		err = h.db.QueryRowContext(ctx, "SELECT clock_timestamp()").Scan(&now)
		if err == nil && time.Since(before) < 20*time.Millisecond {
			skew = now.Sub(before.Add(time.Since(before) / 2).Round(0))
			if skew.Abs() < 20*time.Millisecond {
				skew = 0 // one machine, one clock; what is left is the way there and back
			}
			return now, skew, nil
		}
		if !sleep(ctx, 50*time.Millisecond) {
			break
		}
	}
	return now, 0, err
}

// probe measures how long a worker that has lost its connections needs to get one.
func (h *history) probe(ctx context.Context) {
	began := time.Now()
	db, err := sql.Open("pgx", h.url)
	if err == nil {
		defer db.Close()
		err = db.PingContext(ctx)
	}
	h.checkOrBroken(err)
	h.connecting = time.Since(began)
}

// settle waits until every job was led and a slot decided since everything was whole again, or for
// much longer than that may take.
func (h *history) settle(ctx context.Context, healed time.Time) {
	for end := time.Now().Add(settleLimit); time.Now().Before(end); {
		missing := make(map[string]bool)
		for _, job := range h.jobs {
			missing[job] = true
		}
		h.mu.Lock()
		for _, r := range h.records {
			if r.Kind == check.Tick && r.Before.After(healed) {
				delete(missing, r.Job)
			}
		}
		h.mu.Unlock()
		var decided bool
		err := h.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM leader_slot
			WHERE job_name = $1 AND slot > $2 AND state <> 'running')`, h.slotJobs[0], healed).Scan(&decided)
		if err == nil && decided && len(missing) == 0 || !sleep(ctx, 50*time.Millisecond) {
			return
		}
	}
}

const settleLimit = 20 * time.Second

func (h *history) record(r check.Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.records = append(h.records, r)
}

func (h *history) pause(worker string, from, to time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pauses = append(h.pauses, check.Pause{Worker: worker, From: from.Round(0), To: to.Round(0)})
}

func (h *history) fail(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed = append(h.failed, what)
}

func (h *history) note(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.notes = append(h.notes, what)
}

// check is for what must work in any case.
func (h *history) check(err error) {
	if err != nil {
		h.fail("the run itself: " + err.Error())
	}
}

// checkOrBroken is for what may fail while the server is being restarted.
func (h *history) checkOrBroken(err error) {
	if h.strict {
		h.check(err)
	}
}

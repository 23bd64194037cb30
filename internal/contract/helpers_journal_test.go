package contract_test

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

// A tenure is the time in which somebody took itself for the leader of a job, by its own clock.
type tenure struct {
	Job   string
	Token int64
	Until time.Time // the last moment at which the term's context was seen live
	Cause error     `json:"-"`
}

func (n tenure) String() string { return fmt.Sprintf("term %d of %q", n.Token, n.Job) }

// follow watches a term and delivers its tenure when the term's context has ended.
func follow(term *leader.Term) <-chan tenure {
	done := make(chan tenure, 1)
	go func() { done <- watch(term.Context(), term) }()
	return done
}

// watch looks again and again whether ctx is live, and returns when it is not. The clock is read
// before the context: a context that is live now was live then, however long the machine kept this
// goroutine from running in between.
func watch(ctx context.Context, term *leader.Term) tenure {
	n := tenure{Job: term.Job(), Token: term.Token()}
	tick := time.NewTicker(3 * time.Millisecond)
	defer tick.Stop()
	for {
		now := time.Now()
		if ctx.Err() != nil {
			n.Cause = context.Cause(ctx)
			return n
		}
		n.Until = now
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// A journal is what the database saw of every lease, in its order and by its clock: the other side
// of the tenures.
type journal struct {
	pool *sql.DB // straight to the server

	// The server's clock minus this process's, and how wrong that may be. On one machine the clocks
	// are the same one.
	offset, inaccuracy time.Duration
}

type entry struct {
	at       time.Time
	token    int64
	acquired time.Time
	expires  time.Time
}

func keepJournal(t *testing.T, url string) *journal {
	t.Helper()
	j := &journal{pool: pgtest.Open(t, "pgx", url), inaccuracy: time.Hour}
	for _, statement := range []string{
		`CREATE TABLE journal (
			n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at timestamptz, job_name text, token bigint,
			acquired_at timestamptz, expires_at timestamptz)`,
		`CREATE FUNCTION journal() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO journal (at, job_name, token, acquired_at, expires_at)
			VALUES (clock_timestamp(), NEW.job_name, NEW.token, NEW.acquired_at, NEW.expires_at);
			RETURN NULL;
		END $$`,
		`CREATE TRIGGER journal AFTER INSERT OR UPDATE ON leader_lease
			FOR EACH ROW EXECUTE FUNCTION journal()`,
	} {
		mustExec(t, j.pool, statement)
	}
	for range 10 {
		before := time.Now()
		there := databaseNow(t, j.pool)
		took := time.Since(before)
		if took/2 < j.inaccuracy {
			j.offset, j.inaccuracy = there.Sub(before.Add(took/2)), took/2
		}
	}
	return j
}

// entries returns what happened to the job's lease so far.
func (j *journal) entries(t *testing.T, job string) []entry {
	t.Helper()
	rows, err := j.pool.Query(
		`SELECT at, token, acquired_at, expires_at FROM journal WHERE job_name = $1 ORDER BY n`, job)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var all []entry
	for rows.Next() {
		var e entry
		if err := rows.Scan(&e.at, &e.token, &e.acquired, &e.expires); err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// renewals counts how often the database has extended the lease of the term after it was granted.
func (j *journal) renewals(t *testing.T, job string, token int64) int {
	t.Helper()
	n := -1
	for _, e := range j.entries(t, job) {
		if e.token == token {
			n++
		}
	}
	return n
}

// renewedAfter reports whether the database has extended the lease of the term after a moment of
// this process.
func (j *journal) renewedAfter(t *testing.T, job string, token int64, moment time.Time) bool {
	t.Helper()
	return slices.ContainsFunc(j.entries(t, job), func(e entry) bool {
		return e.token == token && e.at.After(moment.Add(j.offset+j.inaccuracy))
	})
}

// check compares tenures with the journal. Each must be over before its lease was, as far as the
// lease went when the tenure ended, and before the next term of the job began.
func (j *journal) check(t *testing.T, tenures ...tenure) {
	t.Helper()
	slices.SortFunc(tenures, func(a, b tenure) int { return cmp.Compare(a.Token, b.Token) })
	for _, n := range tenures {
		if n.Until.IsZero() { // it was over before anybody looked
			continue
		}
		until := n.Until.Add(j.offset - j.inaccuracy)
		var lease, next entry
		for _, e := range j.entries(t, n.Job) {
			if e.token == n.Token && !e.at.After(until.Add(2*j.inaccuracy)) {
				lease = e
			}
			if e.token > n.Token && next.token == 0 {
				next = e
			}
		}
		switch {
		case lease.token == 0:
			t.Errorf("%v: the database never granted it by %v", n, until)
		case !until.Before(lease.expires):
			t.Errorf("%v: its context was live %v after its lease had expired", n, until.Sub(lease.expires))
		case next.token != 0 && !until.Before(next.acquired):
			t.Errorf("%v: its context was live %v after term %d had begun: two leaders",
				n, until.Sub(next.acquired), next.token)
		default:
			t.Logf("%v: its context ended %v before its lease",
				n, lease.expires.Sub(until).Round(time.Millisecond))
		}
	}
}

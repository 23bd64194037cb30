package contract_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/leader"
)

func TestJobNamesGoThroughEveryMethodUnchanged(t *testing.T) {
	t.Parallel()
	names := []string{
		`Backup '/logs/' + daily 日本`,
		strings.Repeat("long ", 60), // 300 bytes
		strings.Repeat("x", leader.MaxJobBytes),
		strings.Repeat("a", 63) + "1", // Postgres cuts its own names after 63 bytes
		strings.Repeat("a", 63) + "2",
		strings.Repeat("a", 63),
		" ", " x", "x ", "x", "X", "\t\n\r", `\`, `\n`, `"`, `'`, `''; DROP TABLE leader_lease; --`,
		`$1`, `%s`, `_`, `{"job_name": "x"}`, `<a>&amp;`, `null`, `\u0000`,
		"\u2028", "\ufffd", "\U0010ffff",
		"é", "e\u0301", // the same to a person, not to a computer
		"ß", "ss", "\x01\x7f",
	}
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool, admin := openPair(t, driver, url)
		leads, follows := newElector(t, pool, quick), newElector(t, pool, quick)
		terms := map[string]*leader.Term{}
		for _, name := range names {
			terms[name] = acquire(t, leads, name)
			if got := terms[name].Job(); got != name {
				t.Errorf("the term's job is %q, want %q", got, name)
			}
			refused(t, follows, name)
		}
		leases, err := leads.Leases(t.Context())
		if err != nil || len(leases) != len(names) {
			t.Fatalf("there are %d leases of %d names, %v", len(leases), len(names), err)
		}
		for _, lease := range leases {
			if terms[lease.Job] == nil {
				t.Errorf("the table has %q", lease.Job)
			}
		}

		eventually(t, "one statement renews them all", func() bool {
			return scan[bool](t, admin, `SELECT bool_and(renewed_at > acquired_at)
				AND count(DISTINCT xmin::text) = 1 FROM leader_lease`)
		})
		for _, name := range names {
			won := campaigning(t, follows, name)
			resign(t, terms[name])
			if term := receive(t, "the election for "+name, won); term.Token() != 2 {
				t.Errorf("%q: the follower's term is %v", name, term)
			}
		}
		n := scan[int](t, admin, `SELECT count(*) FROM leader_lease WHERE token = 2`)
		if n != len(names) {
			t.Errorf("%d of %d names have been handed over", n, len(names))
		}
	})
}

func TestImpossibleJobNamesAreRefusedByEveryMethod(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		e := newElector(t, pool, quick)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for name, why := range map[string]string{
			"":             "empty",
			"nul\x00byte":  "NUL",
			"bad\xffutf-8": "UTF-8",
			"cut\xe6\x97":  "UTF-8",
			strings.Repeat("x", leader.MaxJobBytes+1):   "1025",
			strings.Repeat("日", leader.MaxJobBytes/3+1): "1026",
		} {
			check := func(method string, err error) {
				t.Helper()
				if !errors.Is(err, leader.ErrJobName) || !strings.Contains(err.Error(), why) {
					t.Errorf("%s(%q) = %v, want ErrJobName and %q", method, name, err, why)
				}
			}
			_, _, err := e.TryAcquire(ctx, name)
			check("TryAcquire", err)
			_, err = e.Campaign(ctx, name)
			check("Campaign", err)
			check("Run", e.Run(ctx, name, func(context.Context, *leader.Term) error { panic("led") }))
			for _, err := range e.Observe(ctx, name) {
				check("Observe", err)
			}
		}
		if n := scan[int](t, pool, `SELECT count(*) FROM leader_lease`); n != 0 {
			t.Errorf("%d leases were created", n)
		}
	})
}

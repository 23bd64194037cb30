package leader

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/internal/pgfake"
)

func TestBadJobNamesAreRefusedWithoutAsking(t *testing.T) {
	for name, job := range map[string]string{
		"empty":           "",
		"a byte too long": strings.Repeat("j", MaxJobBytes+1),
		"long in bytes":   strings.Repeat("日", MaxJobBytes/3+1),
		"only NUL":        "\x00",
		"NUL":             "nightly\x00report",
		"not UTF-8":       "nightly\xffreport",
		"cut UTF-8":       "日本"[:5],
		"a surrogate":     "\xed\xa0\x80",
	} {
		for method, call := range map[string]func(*process) error{
			"TryAcquire": func(p *process) error { _, _, err := p.TryAcquire(t.Context(), job); return err },
			"Campaign":   func(p *process) error { _, err := p.Campaign(t.Context(), job); return err },
			"Run": func(p *process) error {
				return p.Run(t.Context(), job, func(context.Context, *Term) error { panic("works") })
			},
			"Observe": func(p *process) error {
				for _, err := range p.Observe(t.Context(), job) {
					if err != nil {
						return err
					}
				}
				return nil
			},
		} {
			t.Run(method+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := start(t, pgfake.NewTable(), Config{})
					if err := call(p); !errors.Is(err, ErrJobName) {
						t.Errorf("%v, want ErrJobName", err)
					}
					if n := len(p.path.Asked(time.Time{})); n != 0 {
						t.Errorf("asked %d times", n)
					}
				})
			})
		}
	}
}

func TestOddJobNamesStayWhatTheyAre(t *testing.T) {
	common := strings.Repeat("c", 63) // the length at which Postgres cuts its own names
	jobs := []string{
		"j", strings.Repeat("j", MaxJobBytes), strings.Repeat("j", 300), common + "1", common + "2",
		`Backup '/logs/' + daily 日本`, `"quoted" \ and \u0000 <&>`, " ", " a ", "a", "A", "a\nb\tc",
		"\x01", "\u2028", "\ufffd", "%s $1 ;--", "🦫",
	}
	synctest.Test(t, func(t *testing.T) {
		tb := pgfake.NewTable()
		p, follower := start(t, tb, Config{}), start(t, tb, Config{})
		var terms []*Term
		for _, job := range jobs {
			terms = append(terms, p.mustLead(t, job))
		}
		stop := follower.wait(t, jobs...)
		time.Sleep(time.Minute) // renewals and looks pass the names as JSON
		leases, err := p.Leases(t.Context())
		if err != nil || len(leases) != len(jobs) {
			t.Fatalf("%d leases, %v; want %d", len(leases), err, len(jobs))
		}
		for i, term := range terms {
			if term.Job() != jobs[i] || term.Token() != 1 || term.Context().Err() != nil {
				t.Errorf("%q: term of %q, token %d, %v",
					jobs[i], term.Job(), term.Token(), context.Cause(term.Context()))
			}
			if row := tb.Row(jobs[i]); row.Holder != p.Holder() || !tb.Live(jobs[i]) {
				t.Errorf("%q: %+v", jobs[i], row)
			}
		}
		if n := len(follower.reported(EventWaiting)); n != len(jobs) {
			t.Errorf("%d waits reported, want %d", n, len(jobs))
		}
		stop()
		mustResign(t, terms...)
	})
}

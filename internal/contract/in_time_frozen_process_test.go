package contract_test

import (
	"encoding/json"
	"syscall"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
)

func TestFrozenProcessNeverLeadsBesideItsSuccessor(t *testing.T) {
	t.Parallel()
	withEachDriver(t, func(t *testing.T, driver, url string) {
		// Room for a machine that is busy: A's first term must last until its path freezes.
		const ttl = 5 * time.Second
		j := keepJournal(t, url)
		proxy := pgtest.NewProxy(t, url)
		o := order{
			Program: "tenures", Driver: driver, URL: proxy.URL, Job: job, TTL: ttl, RetryEvery: frozenRetry,
		}
		a := start(t, o)
		a.says(t, "elected")
		o.URL = url
		b := start(t, o)
		eventually(t, "renewal", func() bool { return j.renewals(t, job, 1) >= 1 })

		proxy.Freeze()
		first := tenureOf(t, a)
		b.says(t, "elected")
		<-time.After(ttl / 2) // A goes on trying
		proxy.Thaw()
		b.signal(t, syscall.SIGTERM)
		second := tenureOf(t, b)
		a.says(t, "elected")
		eventually(t, "renewal", func() bool { return j.renewals(t, job, 3) >= 1 })
		a.signal(t, syscall.SIGTERM)
		third := tenureOf(t, a)
		j.check(t, first, second, third)
	})
}

// tenureOf waits for the end of a term of the process.
func tenureOf(t *testing.T, p *process) (n tenure) {
	t.Helper()
	if err := json.Unmarshal([]byte(p.says(t, "ended")), &n); err != nil {
		t.Fatal(err)
	}
	return n
}

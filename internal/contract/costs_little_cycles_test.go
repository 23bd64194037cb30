package contract_test

import (
	"fmt"
	"testing"

	"github.com/pgleader/pgleader/internal/pgtest"
)

func TestThousandCyclesLeaveNoGoroutineAndNoConnection(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, driver, url string) {
		pool := pgtest.Open(t, driver, url)
		for _, conns := range []int{0, 1} { // 0 means no limit
			name := fmt.Sprintf("at-most-%d", conns)
			p := start(t, order{
				Program: "cycles", Driver: driver, URL: named(t, url, name), Job: name, MaxConns: conns,
			})
			type resources struct{ goroutines, open, used int }
			report := func(when string) (r resources) {
				_, err := fmt.Sscan(p.says(t, when), &r.goroutines, &r.open, &r.used)
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			before := report("before")
			for n := range 10 {
				p.says(t, fmt.Sprintf("cycle %d00", n+1))
			}
			after := report("after")
			if after.goroutines > before.goroutines {
				t.Errorf("%s: %d goroutines before, %d after", name, before.goroutines, after.goroutines)
			}
			server := connectionsOf(t, pool, name)
			if after.open != 1 || after.used != 0 || server != 1 {
				t.Errorf("%s: %d connections are open, %d in use, %d at the server; want 1, 0, 1",
					name, after.open, after.used, server)
			}
			if token := tokenOf(t, pool, name); token != 1001 {
				t.Errorf("%s: token %d, want 1001", name, token)
			}
			p.tell(t, "end")
			p.exits(t)
		}
	})
}

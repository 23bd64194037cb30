package main

import (
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/pgleader/pgleader/internal/pgtest"
)

func TestToolWorksThroughAPooler(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"transaction", "session"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			pooled := pgtest.PgBouncer(t, pgtest.NewURL(t), mode)
			for _, args := range [][]string{
				{"status"}, {"history", "nightly-report"}, {"migrate", "up"}, {"doctor"},
			} {
				_, status, stderr := start(t.Context(), t, append(args, "--database-url", pooled)...)
				if code := <-status; code != 0 {
					text, _ := os.ReadFile(stderr)
					t.Errorf("%v: exit status %d\n%s", args, code, text)
				}
			}
			u, err := url.Parse(pooled)
			if err != nil {
				t.Fatal(err)
			}
			u.User = url.UserPassword(u.User.Username(), "wrong")
			_, status, stderr := start(t.Context(), t, "status", "--database-url", u.String())
			<-status
			text, _ := os.ReadFile(stderr)
			if !strings.Contains(string(text), "check user and password") {
				t.Errorf("with a wrong password:\n%s", text)
			}
		})
	}
}

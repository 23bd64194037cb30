package pgcall_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/db"
	"github.com/pgleader/pgleader/internal/pgcall"
	"github.com/pgleader/pgleader/internal/pgfake"
)

// A few rivals are waited out. A server that gives up each statement is not asked for ever, for
// whoever asks may have no deadline.
func TestQuestionAmongRivalsIsAskedAgainButNotForEver(t *testing.T) {
	t.Parallel()
	for name, rivals := range map[string]int{"none": 0, "a few": 5, "no end of them": 1000} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := pgfake.NewPath(pgfake.NewTable())
				caller := pgcall.New(path.Connect, time.Second, time.Second, time.Second)
				asked := 0
				value, err := pgcall.AskAmongRivals(t.Context(), caller,
					func(context.Context, db.Querier) (int, error) {
						asked++
						if asked <= rivals {
							return 0, pgfake.ServerError("40001")
						}
						return 7, nil
					})
				switch {
				case rivals < 10 && (value != 7 || err != nil || asked != rivals+1):
					t.Errorf("%d, %v after %d tries; want the answer after %d", value, err, asked, rivals+1)
				case rivals > 10 && (!pgcall.Rivalry(err) || asked > 20):
					t.Errorf("%v after %d tries, want the server's error after a few", err, asked)
				}
			})
		})
	}
}

package leader

import (
	"database/sql"
	"testing"

	"github.com/pgleader/pgleader/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// onPostgres runs a test over lib/pq and over pgx, each on a fresh database.
func onPostgres(t *testing.T, test func(t *testing.T, pool *sql.DB)) {
	t.Helper()
	for _, driver := range pgtest.Drivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			test(t, pgtest.Open(t, driver, pgtest.NewURL(t)))
		})
	}
}

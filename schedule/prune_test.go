package schedule_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgleader/pgleader/internal/pgfake"
	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

// Of a schedule that comes every 10 ms most slots are missed, while each run takes two seconds.
func TestPruningKeepsUpWithWhatIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval, keep, run = 10 * time.Millisecond, time.Minute, 2 * time.Second
		tb := pgfake.NewTable()
		d := &diary{table: tb}
		p := start(t, tb, leader.Config{})
		p.follow(t, every(interval), schedule.Policy{Keep: keep}, d.work(run))
		for range 5 {
			time.Sleep(time.Minute)
			// What is kept, what one run has recorded since, and what the next one is at.
			if n, most := len(tb.Slots()), int((keep+2*run)/interval)+1; n > most {
				t.Errorf("%d slots are on record, want at most %d", n, most)
			}
		}
	})
}

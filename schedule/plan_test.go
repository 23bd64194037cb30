package schedule

import (
	"strconv"
	"testing"
	"time"
)

// Whatever the number of slots that have come due, the latest ones are found, without a gap between
// them.
func TestOfManyDueSlotsTheLatestAreFound(t *testing.T) {
	t.Parallel()
	epoch := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, n := range []int{
		0, 1, 999, 1000, 1001, 1999, 2000, 2001, 2500, 3000, 4001, 100_000, 30_000_000,
	} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			t.Parallel()
			r := planner{schedule: seconds{}}
			now := epoch.Add(time.Duration(n)*time.Second + time.Millisecond)
			due, next, err := r.due(epoch, now)
			if err != nil {
				t.Fatal(err)
			}
			if len(due) < min(n, maxRecorded) || len(due) > 2*maxRecorded {
				t.Fatalf("%d slots, want the latest %d or a few more", len(due), min(n, maxRecorded))
			}
			for i, at := range due {
				if want := epoch.Add(time.Duration(n-len(due)+1+i) * time.Second); !at.Equal(want) {
					t.Fatalf("slot %d of %d is %v, want %v", i, len(due), at, want)
				}
			}
			if want := epoch.Add(time.Duration(n+1) * time.Second); !next.Equal(want) {
				t.Errorf("next is %v, want %v", next, want)
			}
		})
	}
}

// seconds is a schedule that comes every second.
type seconds struct{}

func (seconds) Next(after time.Time) time.Time {
	return after.Truncate(time.Second).Add(time.Second)
}

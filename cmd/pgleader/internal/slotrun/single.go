package slotrun

import (
	"context"
	"fmt"
	"time"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/words"
	"github.com/pgleader/pgleader/schedule"
)

// single runs one slot, or says what became of it.
func (r *run) single(ctx context.Context, at time.Time) error {
	if err := r.near(ctx, at); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	rivals := make(chan string, 1)
	r.waiting = true
	if !r.StandBy {
		r.onRival = func(holder string) {
			select {
			case rivals <- holder:
			default:
			}
			cancel()
		}
	}
	ranSlot := false
	err := r.patiently(ctx, func() (err error) {
		ranSlot, err = r.Scheduler.RunSlot(ctx, r.Job.Name, at, r.command)
		return err
	})
	if r.ran {
		return nil
	}
	select {
	case rival := <-rivals:
		r.voice.Say(r.Job.Name, "nothing to do for slot %s, %s leads the job",
			words.Instant(at), words.Name(rival))
		return nil
	default:
	}
	if err == nil && !ranSlot {
		return r.tell(ctx, at)
	}
	return err
}

// near refuses a slot that does not come soon: a typing error should not hang a shell.
func (r *run) near(ctx context.Context, at time.Time) error {
	return r.patiently(ctx, func() error {
		// It says which tables or rights are missing; the question for the time does not.
		if _, err := r.Scheduler.History(ctx, r.Job.Name, 1); err != nil {
			return err
		}
		now, err := r.now(ctx)
		if ahead := at.Sub(now); err == nil && ahead > r.Early {
			return words.WithHint(fmt.Errorf("slot %s comes in %s by the database's clock",
				words.Instant(at), words.Span(ahead)),
				"call again at that time, or raise --early to wait for it")
		}
		return err
	})
}

// recent is how many slots are searched for what became of one.
const recent = 100

// tell says what became of a slot that nothing is to be done about.
func (r *run) tell(ctx context.Context, at time.Time) error {
	runs, err := r.Scheduler.History(ctx, r.Job.Name, recent)
	if err != nil {
		return err
	}
	r.voice.Say(r.Job.Name, "%s", fate(runs, at))
	return nil
}

// fate is what became of a slot, by the records of the latest ones.
func fate(runs []schedule.Record, at time.Time) string {
	for _, run := range runs {
		if !words.SameSlot(run.Slot, at) {
			continue
		}
		text := fmt.Sprintf("nothing to do, slot %s is on record as %s, by %s",
			words.Instant(run.Slot), run.State, words.Name(run.Holder))
		if run.Error != "" {
			text += ": " + words.Name(run.Error)
		}
		return text
	}
	return "nothing to do for slot " + words.Instant(at)
}

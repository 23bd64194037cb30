package schedule

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/pgleader/pgleader/internal/pgcall"
	"github.com/pgleader/pgleader/leader"
)

// Scheduler runs jobs once per slot on behalf of one process: one is enough, for any number of
// jobs. It needs no closing. All methods may be called from several goroutines.
type Scheduler struct {
	elector *leader.Elector
	calls   *pgcall.Caller
	log     *slog.Logger
	onEvent func(Event) // or nil

	ttl        time.Duration
	retryEvery time.Duration
	callLimit  time.Duration // how long one call to the database may take
}

// Config says where a scheduler reports. The zero value is ready to use.
type Config struct {
	// Logger gets one line for each event, with the attributes job, holder, token and slot. Default
	// the elector's.
	Logger *slog.Logger

	// OnEvent, if set, is called beside every log line, for metrics. It is called from the goroutine
	// that saw the event, possibly from several at once. It must not block, for slots wait for it.
	// Default nil.
	OnEvent func(Event)
}

// New returns a scheduler whose jobs the elector leads. It uses the elector's database and its
// durations. It refuses a nil elector with leader.ErrConfig.
func New(elector *leader.Elector, cfg Config) (*Scheduler, error) {
	if elector == nil {
		return nil, fmt.Errorf("%w: the scheduler's elector is nil, want one of leader.New",
			leader.ErrConfig)
	}
	timing := elector.Config()
	s := &Scheduler{
		elector:    elector,
		log:        cfg.Logger,
		onEvent:    cfg.OnEvent,
		ttl:        timing.TTL,
		retryEvery: timing.RetryEvery,
		callLimit:  timing.TTL / 3,
	}
	if s.log == nil {
		s.log = timing.Logger
	}
	s.calls = pgcall.New(pgcall.ConnectorOf(elector.DB()), s.callLimit,
		pgcall.RetryPause(timing.RenewEvery), s.retryEvery)
	return s, nil
}

// Schedule says when a job is to run: Next returns the first instant after the given one, or the
// zero time if there is none. It is given times in UTC; a schedule that means local times converts
// them itself: see InZone. Any cron library's schedule fits.
type Schedule interface {
	Next(after time.Time) time.Time
}

// askTerm asks on behalf of a live term, and again after a passing failure, until the term or ctx
// ends.
func askTerm[T any](
	ctx context.Context, s *Scheduler, t *leader.Term, question pgcall.Question[T],
) (T, error) {
	insists := s.insists(Event{Job: t.Job(), Token: t.Token()})
	var lost error
	value, err := pgcall.AskWhile(ctx, s.calls, func(err error) bool {
		lost = t.Err()
		return lost == nil && ctx.Err() == nil && insists(err)
	}, question)
	if err != nil && lost != nil {
		err = fmt.Errorf("%w (%w)", lost, err)
	}
	return value, err
}

// insists returns what says whether a question may succeed a little later. Its first failure is an
// event, for it may be asked for as long as the term lives. One in favour of a rival is none.
func (s *Scheduler) insists(event Event) func(error) bool {
	said := false
	return func(err error) bool {
		if !pgcall.Passing(err) {
			return false
		}
		if !said && !pgcall.Rivalry(err) {
			said, event.Kind, event.Err = true, EventRetry, err
			s.emit(event)
		}
		return true
	}
}

// retryWait is how long to wait where the database, or another process, has to move first.
func (s *Scheduler) retryWait() time.Duration { return pgcall.Spread(s.retryEvery) }

package leader

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pgleader/pgleader/internal/pgfake"
)

func TestServerErrorsSayWhatToDoAndStayReachable(t *testing.T) {
	for state, want := range map[string]error{
		"42P01": ErrNotMigrated, // undefined_table
		"42703": ErrNotMigrated, // undefined_column
		"42883": ErrNotMigrated, // undefined_function
		"3F000": ErrNotMigrated, // invalid_schema_name
		"25006": ErrReadOnly,    // read_only_sql_transaction
		"42501": ErrForbidden,   // insufficient_privilege
		"57014": nil,            // query_canceled
		"53300": nil,            // too_many_connections
	} {
		t.Run(state, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t, pgfake.NewTable(), Config{})
				p.path.Suffer(pgfake.Always(pgfake.Trouble{Fails: pgfake.ServerError(state)}))
				_, ok, err := p.TryAcquire(t.Context(), "report")
				var server pgfake.ServerError
				if ok || !errors.As(err, &server) || string(server) != state {
					t.Fatalf("TryAcquire = %v, %v; want the server's error", ok, err)
				}
				for _, sentinel := range []error{ErrNotMigrated, ErrReadOnly, ErrForbidden} {
					if errors.Is(err, sentinel) != errors.Is(want, sentinel) {
						t.Errorf("%q: is %q: %v", err, sentinel, !errors.Is(want, sentinel))
					}
				}
				if !strings.HasPrefix(err.Error(), "leader: ") {
					t.Errorf("%q does not say that it is ours", err)
				}
			})
		})
	}
}

func TestEachEventIsLoggedOnceWithItsJobHolderAndToken(t *testing.T) {
	var text strings.Builder
	p := newProcess(t, pgfake.NewTable(), Config{})
	p.log = slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}))
	errBoom := errors.New("boom")
	for _, kind := range []EventKind{
		EventElected, EventLost, EventResigned, EventSkipped, EventWaiting,
		EventRenewFailed, EventLookFailed, EventClaimFailed, EventResignFailed, EventClockSetBack,
	} {
		text.Reset()
		event := Event{Kind: kind, Job: "nightly report", Holder: "web-1", Token: 7, Err: errBoom}
		p.emit(event)
		line := text.String()
		for _, want := range []string{
			`"leader: `, `job="nightly report"`, "holder=web-1", "token=7", "error=boom",
		} {
			if strings.Count(line, want) != 1 {
				t.Errorf("%s: %q is not once in %q", kind, want, line)
			}
		}
		if got := p.reported(kind); len(got) != 1 || got[0] != event {
			t.Errorf("%s: reported %+v", kind, got)
		}
	}
}

func TestEventThatConcernsNoJobNamesNone(t *testing.T) {
	var text strings.Builder
	p := newProcess(t, pgfake.NewTable(), Config{})
	p.log = slog.New(slog.NewTextHandler(&text, nil))
	p.emit(Event{Kind: EventLookFailed, Holder: p.Holder(), Err: context.DeadlineExceeded})
	line := text.String()
	if strings.Contains(line, "job=") || strings.Contains(line, "token=") ||
		!strings.Contains(line, "level=WARN") {
		t.Errorf("logged %q", line)
	}
}

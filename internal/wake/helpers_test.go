package wake_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/pgtest"
	"github.com/pgleader/pgleader/internal/wake"
	"github.com/pgleader/pgleader/leader/pgxwake"
	"github.com/pgleader/pgleader/leader/pqwake"
)

// patience bounds every wait for something that must happen.
const patience = 60 * time.Second

func TestMain(m *testing.M) { pgtest.Main(m) }

var listeners = map[string]func(context.Context, wake.Config) error{
	"pqwake": func(ctx context.Context, cfg wake.Config) error {
		return pqwake.Listen(ctx, pqwake.Config(cfg))
	},
	"pgxwake": func(ctx context.Context, cfg wake.Config) error {
		return pgxwake.Listen(ctx, pgxwake.Config(cfg))
	},
}

func forEachListener(t *testing.T, test func(t *testing.T, name string)) {
	t.Helper()
	for name := range listeners {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, name)
		})
	}
}

// A listening is a listener at work, and what became known of it.
type listening struct {
	stop  context.CancelFunc
	ended chan error // of capacity 1

	mu   sync.Mutex
	woke []string
	errs []error
	log  strings.Builder
}

// start starts a listener. It ends with the test, if it has not ended before.
func start(t *testing.T, name, rawURL string) *listening {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	l := &listening{stop: stop, ended: make(chan error, 1)}
	cfg := wake.Config{
		URL:     rawURL,
		Wake:    l.onWake,
		Logger:  slog.New(slog.NewTextHandler(l, nil)),
		OnError: l.onError,
	}
	done := make(chan struct{})
	go func() {
		l.ended <- listeners[name](ctx, cfg)
		close(done)
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	return l
}

func (l *listening) onWake(job string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.woke = append(l.woke, job)
}

func (l *listening) onError(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errs = append(l.errs, err)
}

func (l *listening) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.Write(p)
}

func (l *listening) wokeTimes() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.woke)
}

// failures are the first errors of the rows that were reported.
func (l *listening) failures() []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.errs)
}

// lines counts the log's lines of a level, and returns the log.
func (l *listening) lines(level slog.Level) (int, string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.log.String()
	return strings.Count(text, "level="+level.String()), text
}

// end waits until the listener has ended by itself.
func (l *listening) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-l.ended:
		return err
	case <-time.After(patience):
		t.Fatal("the listener does not end")
	}
	panic("unreachable")
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !condition(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

func sqlState(err error) string {
	var e interface{ SQLState() string }
	if errors.As(err, &e) {
		return e.SQLState()
	}
	return ""
}

// edited is the URL after a change.
func edited(t *testing.T, rawURL string, change func(u *url.URL, query url.Values)) string {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	change(u, query)
	u.RawQuery = query.Encode()
	return u.String()
}

// withParam adds a parameter to a URL.
func withParam(t *testing.T, rawURL, key, value string) string {
	t.Helper()
	return edited(t, rawURL, func(_ *url.URL, query url.Values) { query.Set(key, value) })
}

func exec(t *testing.T, pool *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := pool.ExecContext(context.Background(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

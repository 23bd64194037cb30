package worker

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/connect"
	"github.com/pgleader/pgleader/cmd/pgleader/internal/words"
	"github.com/pgleader/pgleader/internal/child"
)

func TestMain(m *testing.M) {
	child.Main() // the test binary is also the process that watches a command
	os.Exit(m.Run())
}

const patience = time.Minute

// A rig is a worker without a database, and what it and its commands say.
type rig struct {
	*Worker
	ctx  context.Context
	said *buffer
	dir  string
}

func newRig(t *testing.T, config Config) *rig {
	t.Helper()
	pool, err := connect.Open("postgres://127.0.0.1:1/nowhere") // it is never asked
	if err != nil {
		t.Fatal(err)
	}
	said := &buffer{}
	config.Pool, config.Voice = pool, &words.Voice{Out: said}
	if config.TTL == 0 {
		config.TTL = 3 * time.Second
	}
	w, ctx, err := Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.Close()
		pool.Close()
	})
	return &rig{w, ctx, said, t.TempDir()}
}

// script is a job whose shell script finds the rig's directory in $0.
func (r *rig) script(text string) Job {
	return Job{Name: "report", Command: []string{"sh", "-c", text, r.dir}}
}

// start runs a job under a term, and returns where its result comes.
func (r *rig) start(job Job, term tenure) <-chan Result {
	results := make(chan Result, 1)
	go func() { results <- r.work(r.ctx, job, term, nil) }()
	return results
}

// read returns what a script has written.
func (r *rig) read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// waitFor waits for a file that a script makes, and until its command gets signals.
func (r *rig) waitFor(t *testing.T, name string) {
	t.Helper()
	eventually(t, name, func() bool {
		_, err := os.Stat(filepath.Join(r.dir, name))
		return err == nil
	})
	eventually(t, "its command to be entered", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.children) > 0
	})
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}

func receive(t *testing.T, results <-chan Result) Result {
	t.Helper()
	select {
	case r := <-results:
		return r
	case <-time.After(patience):
		t.Fatal("the command has not ended")
		return Result{}
	}
}

// A fakeTerm lasts until it is over, and its time until somebody says otherwise.
type fakeTerm struct {
	ctx  context.Context
	over context.CancelFunc

	mu    sync.Mutex
	until time.Time
}

func newTerm(t *testing.T, left time.Duration) *fakeTerm {
	t.Helper()
	ctx, over := context.WithCancel(t.Context())
	return &fakeTerm{ctx: ctx, over: over, until: time.Now().Add(left)}
}

func (f *fakeTerm) Context() context.Context { return f.ctx }
func (f *fakeTerm) Token() int64             { return 7 }

func (f *fakeTerm) Until() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.until
}

func (f *fakeTerm) extend(left time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.until = time.Now().Add(left)
}

// A buffer may be written to at the same time.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

package pgleader_test

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/pgleader/pgleader/leader"
)

// A worker is another process that runs TestFrozenWorkerProcess: it leads the job whenever it can.
type worker struct {
	cmd     *exec.Cmd
	elected chan int64  // the token of each term when it begins
	ended   chan tenure // and when it has ended
}

const workerEnv = "PGLEADER_TEST_FROZEN_WORKER"

type workerOrder struct {
	Driver, URL, Job string
	TTL              time.Duration
	RetryEvery       time.Duration
}

// A report is one line that a worker prints.
type report struct {
	Tenure tenure
	Ended  bool
}

// startWorker starts a worker, which ends when the test does, or this process.
func startWorker(t *testing.T, order workerOrder) *worker {
	t.Helper()
	text, err := json.Marshal(order)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{
		cmd:     exec.Command(self, "-test.run=^TestFrozenWorkerProcess$"),
		elected: make(chan int64, 100),
		ended:   make(chan tenure, 100),
	}
	w.cmd.Env = append(os.Environ(), workerEnv+"="+string(text))
	w.cmd.Stderr = os.Stderr
	stdin, err := w.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := w.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		w.read(stdout)
	}()
	t.Cleanup(func() {
		stdin.Close()
		w.cmd.Process.Kill()
		<-read
		w.cmd.Wait()
	})
	return w
}

// read turns the worker's lines into terms: one line when a term begins, one when it has ended.
func (w *worker) read(stdout io.Reader) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		var r report
		switch {
		case json.Unmarshal(lines.Bytes(), &r) != nil: // what package testing prints
		case r.Ended:
			w.ended <- r.Tenure
		default:
			w.elected <- r.Tenure.Token
		}
	}
}

// terminate asks the worker to end as an orchestrator does.
func (w *worker) terminate(t *testing.T) {
	t.Helper()
	if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}

// TestFrozenWorkerProcess is no test but the main function of a worker.
func TestFrozenWorkerProcess(t *testing.T) {
	text := os.Getenv(workerEnv)
	if text == "" {
		return
	}
	var order workerOrder
	if err := json.Unmarshal([]byte(text), &order); err != nil {
		t.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(t.Context(), syscall.SIGTERM)
	defer stop()
	go func() {
		io.Copy(io.Discard, os.Stdin) // ends with the parent
		os.Exit(1)
	}()

	pool, err := sql.Open(order.Driver, order.URL)
	if err != nil {
		t.Fatal(err)
	}
	e, err := leader.New(pool, leader.Config{TTL: order.TTL, RetryEvery: order.RetryEvery, Logger: discardLog})
	if err != nil {
		t.Fatal(err)
	}
	out := json.NewEncoder(os.Stdout)
	_ = e.Run(ctx, order.Job, func(ctx context.Context, term *leader.Term) error {
		out.Encode(report{Tenure: tenure{Token: term.Token()}})
		n := watch(ctx, term)
		out.Encode(report{Tenure: n, Ended: true})
		return n.Cause
	})
}

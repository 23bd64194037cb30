package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/pgleader/pgleader/leader"
)

// childVar makes this program a leader that is there to be killed.
const childVar = "PGLEADER_BENCH_CHILD"

type errand struct {
	Driver int
	URL    string
	Job    string
	TTL    time.Duration
}

// child leads until it is killed, or its parent dies.
func child() error {
	var task errand
	if err := json.Unmarshal([]byte(os.Getenv(childVar)), &task); err != nil {
		return err
	}
	pool, err := drivers[task.Driver].open(task.URL)
	if err != nil {
		return err
	}
	e, err := elector(pool, leader.Config{TTL: task.TTL})
	if err != nil {
		return err
	}
	if _, err := e.Campaign(context.Background(), task.Job); err != nil {
		return err
	}
	fmt.Println("leading")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// spawn returns a child that leads by now. kill is kill -9, and returns when the process is gone.
func spawn(ctx context.Context, task errand) (kill func() error, err error) {
	text, err := json.Marshal(task)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), childVar+"="+string(text))
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	kill = func() error {
		err := cmd.Process.Kill()
		_ = cmd.Wait() // "signal: killed"
		return err
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "leading\n" {
		return nil, errors.Join(err, kill(), fmt.Errorf("the child says %q", line))
	}
	return kill, nil
}

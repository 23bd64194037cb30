package pgtest

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"
)

// supervisor is a shell that waits for this process to end, by whatever death, and cleans up. A
// kill -9 runs no deferred function, but it closes a pipe.
type supervisor struct {
	pipe io.Closer
	cmd  *exec.Cmd
}

// A crashed initdb leaves "-pid" in the file, hence the ${pid#-}; without it kill would aim at a
// process group. The loop goes on until the directory stays away, as a server that was just being
// started can still write there.
const superviseScript = `
trap '' HUP INT TERM
cat >/dev/null
quiet=0 round=0
while [ $quiet -lt 2 ] && [ $round -lt 100 ]; do
	round=$((round + 1))
	pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null)
	if [ -n "$pid" ] && kill -QUIT "${pid#-}" 2>/dev/null && [ $round -lt 80 ]; then
		sleep 0.05
		continue
	fi
	if [ -e "$1" ]; then quiet=0; else quiet=$((quiet + 1)); fi
	rm -rf "$1"
	sleep 0.05
done
`

func supervise(dir string) (*supervisor, error) {
	cmd := exec.Command("sh", "-c", superviseScript, "pgtest-supervisor", dir)
	cmd.Dir = "/"
	account{}.prepare(cmd)
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the supervisor: %w", err)
	}
	return &supervisor{pipe, cmd}, nil
}

// end lets the supervisor do its work, and waits for it.
func (s *supervisor) end(timeout time.Duration) error {
	s.pipe.Close()
	done := make(chan error, 1)
	go func() { done <- s.cmd.Wait() }()
	select {
	case err := <-done:
		return err
	case <-time.After(timeout):
		return errors.New("the supervisor is still busy")
	}
}

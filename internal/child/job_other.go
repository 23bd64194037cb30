//go:build !unix && !windows

package child

import "os"

// A job is nothing here: the command is killed, and its descendants go on.
type job struct{}

func newJob() (job, error)        { return job{}, nil }
func (job) add(*os.Process) error { return nil }
func (job) kill(p *os.Process)    { p.Kill() }
func (job) close()                {}

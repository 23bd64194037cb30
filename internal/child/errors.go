package child

import (
	"errors"
	"io/fs"
	"os/exec"
)

// startError tells a command that is not there from one that is of no use.
func startError(err error) *StartError {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return &StartError{127, err}
	}
	return &StartError{126, err}
}

var (
	errNoCommand = errors.New("child: no command")
	errTooLate   = errors.New("child: the time was over before the command could start")
	errDied      = errors.New("child: the command's keeper died; the command was killed")
	errSilent    = errors.New("child: the command's keeper did not answer; both were killed")
	errSurvivors = errors.New("child: part of the command could not be killed")
)

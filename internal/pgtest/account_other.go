//go:build !unix

package pgtest

import (
	"errors"
	"os/exec"
)

type account struct{}

var errNotUnix = errors.New("local servers need a Unix system; use Docker, or set " +
	"PGLEADER_POSTGRES to a postgres:// URL")

func serverAccount() (account, error)        { return account{}, errNotUnix }
func (account) mkdirTemp() (string, error)   { return "", errNotUnix }
func (account) own(string) error             { return errNotUnix }
func (account) prepare(*exec.Cmd)            {}
func (account) signal(*exec.Cmd, bool) error { return errNotUnix }

//go:build unix

package pgtest

import (
	"errors"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is the user that a local server runs as. Postgres refuses to run as root, so root hands
// it to somebody else.
type account struct {
	credential *syscall.Credential // nil: whoever we are
}

func serverAccount() (account, error) {
	if os.Getuid() != 0 {
		return account{}, nil
	}
	for _, name := range []string{"postgres", "nobody", "daemon"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if uidErr == nil && gidErr == nil && uid != 0 {
			return account{&syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
		}
	}
	return account{}, errors.New("postgres does not run as root, and there is no user postgres, " +
		"nobody or daemon to run it as; run the tests as another user")
}

// mkdirTemp makes a directory that belongs to the account, and that it can reach: root's TMPDIR may
// be root's alone.
func (a account) mkdirTemp() (string, error) {
	var errs []error
	for _, base := range []string{os.TempDir(), "/tmp", "/var/tmp"} {
		if a.credential != nil && !reachable(base) {
			continue
		}
		dir, err := os.MkdirTemp(base, "pgleader-pgtest-")
		if err == nil {
			err = a.own(dir)
		}
		if err == nil {
			return dir, nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(append(errs,
		errors.New("no temporary directory that the server's user can reach"))...)
}

func reachable(dir string) bool {
	for ; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil || info.Mode()&0o001 == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}

func (a account) own(path string) error {
	if a.credential == nil {
		return nil
	}
	return os.Chown(path, int(a.credential.Uid), int(a.credential.Gid))
}

// prepare puts the command under the account and in a process group of its own. A ^C at the
// terminal is for the test, which may still need its server to clean up.
func (a account) prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: a.credential}
}

func (a account) signal(cmd *exec.Cmd, immediate bool) error {
	if immediate {
		return cmd.Process.Signal(syscall.SIGQUIT)
	}
	return cmd.Process.Signal(syscall.SIGINT)
}

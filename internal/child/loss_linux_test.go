package child

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestCommandDiesWithKeeperWhileCallerIsStopped(t *testing.T) {
	t.Parallel()
	// Its child is not covered.
	c := startCaller(t, `while :; do echo >"$STAMPS"; done`, time.Hour)
	c.cmd.Process.Signal(syscall.SIGSTOP)
	syscall.Kill(c.keeper, syscall.SIGKILL)
	eventually(t, "the command is dead", func() bool {
		s := state(t, c.pgid)
		return s == "" || s == "Z"
	})
}

func TestKilledCallerWakesAStoppedKeeper(t *testing.T) {
	t.Parallel()
	// If the new parent were in another session, the kernel would wake the keeper as a member of an
	// orphaned process group.
	c := startCaller(t, stubborn, time.Hour, adopterVariable+"=1")
	syscall.Kill(c.keeper, syscall.SIGSTOP)
	eventually(t, "the keeper is stopped", func() bool { return state(t, c.keeper) == "T" })
	syscall.Kill(c.pid, syscall.SIGKILL)
	eventually(t, "the group is dead", func() bool { return !groupLives(c.pgid) })
}

// playAdopter becomes the parent of the keeper whose caller dies.
func playAdopter() {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), adopterVariable+"=")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Run()
	time.Sleep(time.Hour) // until it is killed
}

//go:build unix && !linux

package child

import (
	"os"
	"syscall"
)

func keeperPath() (string, error) { return os.Executable() }

// Orphans go to the init process here, and no signal tells a process of its parent's death: see the
// package's comment.
func adoptOrphans()                       {}
func wakeWithParent(*syscall.SysProcAttr) {}
func dieWithParent(*syscall.SysProcAttr)  {}
func strays(int) []int                    { return nil }
func groupLives(pgid int) bool            { return syscall.Kill(-pgid, 0) == nil }

package child

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// keeperPath is this very binary, also if an upgrade has put another one in its place.
func keeperPath() (string, error) { return "/proc/self/exe", nil }

// adoptOrphans makes this process the parent of descendants whose own parent dies, and gives it its
// name. Without it, the first is the init process; killall goes by the second.
func adoptOrphans() {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	_ = os.WriteFile("/proc/self/comm", []byte(keeperName), 0)
}

// wakeWithParent makes a keeper that somebody has stopped go on when the caller dies, as it has to
// act then. The caller's thread that started it may die earlier: SIGCONT does no harm.
func wakeWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGCONT }

func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// strays returns this process's children outside the group. Their numbers are their own until they
// are reaped.
func strays(pgid int) []int {
	var pids []int
	for _, p := range processes() {
		if p.parent == os.Getpid() && p.group != pgid {
			pids = append(pids, p.id)
		}
	}
	return pids
}

// groupLives is not deceived by zombies: in a container without an init process they stay for ever.
func groupLives(pgid int) bool {
	if syscall.Kill(-pgid, 0) != nil {
		return false
	}
	all := processes()
	for _, p := range all {
		if p.group == pgid {
			return true
		}
	}
	return len(all) == 0 // there is no /proc
}

type process struct{ id, parent, group int }

// processes lists those that are alive.
func processes() []process {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	var all []process
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		// Number (name) state parent group, and the name may contain anything.
		f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
		if len(f) < 3 || f[0][0] == 'Z' || f[0][0] == 'X' {
			continue
		}
		var p process
		p.id, _ = strconv.Atoi(filepath.Base(filepath.Dir(file)))
		p.parent, _ = strconv.Atoi(string(f[1]))
		p.group, _ = strconv.Atoi(string(f[2]))
		all = append(all, p)
	}
	return all
}

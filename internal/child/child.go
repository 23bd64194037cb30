// Package child runs a command that must be dead before a given time, whatever becomes of the
// process that runs it.
//
// That process, the caller, may itself be stopped or killed with -9. So a second process, the
// keeper, is the parent of the command: the caller starts its own binary again, in which [Main]
// takes over. The caller tells the keeper again and again until when the command may run. When that
// time comes without a later one, the keeper sends SIGTERM to the command's whole process group,
// and SIGKILL after a grace. The time is believed by the monotonic clock and by the wall clock,
// whichever says that it has passed: a suspended machine stops the first, and the second can be
// set. So a wall clock that is set forward may end the command. The keeper compares it four times a
// second.
//
// # What ends the command
//
// Until stands for the time last given to [Start] or [Child.Extend] that reached the keeper. The
// group gets
//   - SIGTERM at until, and SIGKILL at until+Grace. A keeper that wakes later than that kills at
//     once.
//   - SIGTERM when [Child.Stop] is called or the caller dies, and SIGKILL a Grace later, or at
//     until+Grace if that is earlier.
//   - SIGTERM when the command itself has exited and left something behind, and SIGKILL as above.
//   - SIGKILL when somebody kills the keeper, from the caller.
//   - SIGKILL at until+Grace from the caller too: it watches the keeper, which may have been
//     stopped. One that does not answer is killed. So a keeper that stays stopped costs the command
//     its life, also while the caller extends.
//
// SIGCONT follows each SIGTERM, so that a stopped command can act on it. Done closes when all this
// is over, and nothing of the group is left.
//
// # Linux
//
// The keeper adopts the command's orphans. When the group is gone, what has left it by setsid gets
// SIGTERM if there is time, and SIGKILL at the same moment as the group. This needs /proc. The
// command itself dies with the keeper, by its parent-death signal, also while the caller is
// stopped; executing a set-user-ID program cancels that. A keeper that is stopped wakes when the
// caller dies.
//
// What remains: if the keeper is killed with -9, descendants outside the group go on. If the caller
// is killed with it, so do the command's own children, and if the caller is stopped then, they go
// on until it does. The keeper has a process name of its own, so that killall -9 with the caller's
// name does not kill both.
//
// # Other Unix systems
//
// Descendants that leave the group are not followed. There is no parent-death signal: the keeper
// sees the caller die by the end of a pipe, as on Linux, and the caller a keeper that is killed.
// But if both are killed with -9 at once, the command goes on; if the keeper is killed while the
// caller is stopped, it goes on until the caller does; and if the caller is killed while the keeper
// is stopped, until the keeper does.
//
// # Windows
//
// There are no process groups, no signals but the kill, and no keeper: the caller itself watches
// the time, so a suspended caller does not end its command. SIGTERM and Grace are left out: where
// the command would get SIGTERM elsewhere, it is killed with all its descendants, by a job object,
// which also kills them when the caller dies. What the command starts in its first instant, before
// it is in the job, escapes. On systems that are neither, only the command itself is killed, and
// only while the caller lives.
//
// # Terminals
//
// The command and the keeper are in process groups of their own: ^C, ^\ and ^Z at the terminal
// reach the caller alone, which can pass them on by [Child.Signal]. A caller that is stopped by ^Z
// does not extend, so its command ends at until. A command that is itself stopped, by SIGTSTP or
// SIGSTOP, does not count as ended, and is resumed only to be ended. The command runs in the
// background: reading the terminal stops it with SIGTTIN, as it does after & in a shell.
package child

import (
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// A Command is what to run, and how it is ended.
type Command struct {
	// Args are the program, looked up in the caller's PATH unless it has a separator, and its
	// arguments.
	Args []string

	// Env is the whole environment, as key=value; the last of a key counts. Default the caller's.
	Env []string

	// Dir is the working directory, to which a relative program path refers. Default the caller's.
	Dir string

	// Grace is the time from SIGTERM to SIGKILL. With 0 SIGKILL follows at once.
	Grace time.Duration

	// The command gets these very files, so nothing that keeps one of them open holds anything up;
	// nil: the null device.
	Stdin, Stdout, Stderr *os.File
}

// A Result is what became of a command.
type Result struct {
	ExitCode int   // the command's own, or 128+n if signal n ended it; on Windows 1 if it was killed
	Expired  bool  // it was ended because its time ran out
	Killed   bool  // the command or what it left behind outlived its Grace or the keeper: SIGKILL
	Err      error // the command was not watched to its end, or part of it could not be killed
}

// A StartError says that the command can't be executed.
type StartError struct {
	ExitCode int // as shells have it: 127 if it was not found, 126 if it is not executable
	Err      error
}

func (e *StartError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *StartError) Unwrap() error { return e.Err }

// resolve makes the program's path and the directory absolute, and refuses what can't be executed.
func (c *Command) resolve() (path string, err error) {
	if c.Dir != "" {
		if c.Dir, err = filepath.Abs(c.Dir); err != nil {
			return "", err
		}
		// Else its absence would look like the program's.
		if _, err := os.Stat(c.Dir); err != nil {
			return "", err
		}
	}
	path = c.Args[0]
	if path != "" && filepath.Base(path) != path && !filepath.IsAbs(path) {
		if path, err = filepath.Abs(filepath.Join(c.Dir, path)); err != nil {
			return "", err
		}
	}
	path, err = exec.LookPath(path)
	if err != nil {
		return "", startError(err)
	}
	return filepath.Abs(path)
}

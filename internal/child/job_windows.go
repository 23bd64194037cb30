package child

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// A job holds the command and its descendants. The system kills them when the last handle to it is
// closed, which the death of this process does as well.
type job struct{ handle windows.Handle }

func newJob() (job, error) {
	h, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return job{}, err
	}
	var info windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	info.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(h, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	if err != nil {
		windows.CloseHandle(h)
		return job{}, err
	}
	return job{h}, nil
}

func (j job) add(p *os.Process) error {
	var err error
	e := p.WithHandle(func(h uintptr) {
		err = windows.AssignProcessToJobObject(j.handle, windows.Handle(h))
		if event, _ := windows.WaitForSingleObject(windows.Handle(h), 0); event == windows.WAIT_OBJECT_0 {
			err = nil // it has exited, so it can't be added
		}
	})
	return errors.Join(e, err)
}

func (j job) kill(*os.Process) { windows.TerminateJobObject(j.handle, 1) }
func (j job) close()           { windows.CloseHandle(j.handle) }

//go:build unix

package worker

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pgleader/pgleader/internal/child"
)

// readyAndOn is a script that makes the file ready, and goes on.
const readyAndOn = `touch "$0/ready"; while :; do sleep 0.01; done`

func TestCommandSeesItsTermAndNotWhatConcernsPgleaderAlone(t *testing.T) {
	for _, name := range []string{
		"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "PGLEADER_TOKEN", "PGLEADER_SLOT",
		"PGLEADER_ATTEMPT",
	} {
		t.Setenv(name, "of another")
	}
	t.Setenv("KEPT", "as it is")
	r := newRig(t, Config{})
	job := r.script(`env > "$0/env"; pwd > "$0/pwd"`)
	job.Dir, job.Env = r.dir, []string{"OWN=1", "PGLEADER_JOB=forged"}
	got := r.work(r.ctx, job, newTerm(t, time.Minute), []string{"PGLEADER_SLOT=now"})
	if got != (Result{}) {
		t.Fatalf("%+v", got)
	}
	env := strings.Split(r.read(t, "env"), "\n")
	for _, want := range []string{
		"KEPT=as it is", "OWN=1", "PGLEADER_JOB=report", "PGLEADER_TOKEN=7", "PGLEADER_SLOT=now",
		"PGLEADER_HOLDER=" + r.Elector.Holder(),
	} {
		if !slices.Contains(env, want) {
			t.Errorf("no %s", want)
		}
	}
	for _, entry := range env {
		if strings.HasSuffix(entry, "of another") || strings.HasSuffix(entry, "forged") {
			t.Errorf("it sees %s", entry)
		}
	}
	pwd := strings.TrimSpace(r.read(t, "pwd"))
	if filepath.Base(pwd) != filepath.Base(r.dir) {
		t.Errorf("it runs in %s, want %s", pwd, r.dir)
	}
}

func TestCommandIsEndedWithItsTerm(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{StopWithin: time.Second})
	term := newTerm(t, time.Minute)
	results := r.start(r.script("trap 'exit 3' TERM; "+readyAndOn), term)
	r.waitFor(t, "ready")
	term.over()
	if got := receive(t, results); got != (Result{Code: 3, Lost: true}) {
		t.Errorf("%+v, want a loss", got)
	}
}

// Zero is not a default: the command gets no time at all.
func TestCommandIsKilledAtOnceIfItHasNoTimeToStop(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{TTL: time.Hour, StopWithin: 0}) // a part of the TTL would be minutes
	term := newTerm(t, time.Minute)
	results := r.start(r.script("trap '' TERM; "+readyAndOn), term)
	r.waitFor(t, "ready")
	term.over()
	if got := receive(t, results); got != (Result{Code: 128 + 9, Lost: true}) {
		t.Errorf("%+v, want that it was killed", got)
	}
}

func TestCommandLivesAsLongAsItsTermIsRenewed(t *testing.T) {
	t.Parallel()
	const ttl = time.Second
	r := newRig(t, Config{TTL: ttl})
	term := newTerm(t, ttl)
	results := r.start(r.script(readyAndOn), term)
	r.waitFor(t, "ready")
	renewed := time.NewTicker(ttl / 10)
	defer renewed.Stop()
	for end := time.After(3 * ttl); end != nil; {
		select {
		case <-renewed.C:
			term.extend(ttl)
		case <-end:
			end = nil
		case got := <-results:
			t.Fatalf("it ended in a term that goes on: %+v", got)
		}
	}
	// From here on nobody renews it, and nobody says that it is over.
	if got := receive(t, results); !got.Lost {
		t.Errorf("%+v, want a loss", got)
	}
}

func TestSignalThatAsksToEndIsPassedOnAndEndsTheWorkersContext(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	results := r.start(r.script("trap 'exit 5' TERM; "+readyAndOn), newTerm(t, time.Minute))
	r.waitFor(t, "ready")
	if r.handle(syscall.SIGHUP); r.Asked() != nil {
		t.Fatal("a command may have its own use for SIGHUP")
	}
	<-results
	results = r.start(r.script(`trap 'exit 5' TERM; touch "$0/again"; `+readyAndOn),
		newTerm(t, time.Minute))
	r.waitFor(t, "again")
	r.handle(syscall.SIGTERM)
	<-r.ctx.Done()
	if got := receive(t, results); got != (Result{Code: 5}) || r.Asked() != syscall.SIGTERM {
		t.Errorf("%+v, asked %v", got, r.Asked())
	}
	late := r.work(r.ctx, r.script(":"), newTerm(t, time.Minute), nil)
	if late.Failure() == nil {
		t.Errorf("something new was started: %+v", late)
	}
}

func TestDrainTimeoutEndsACommandThatGoesOn(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{Drain: 50 * time.Millisecond})
	results := r.start(r.script("trap '' TERM; "+readyAndOn), newTerm(t, time.Minute))
	r.waitFor(t, "ready")
	r.handle(syscall.SIGTERM)
	if got := receive(t, results); got.Code != 128+9 {
		t.Errorf("%+v, want that it was killed", got)
	}
}

func TestIdleWorkerEndsAtSIGHUPUnlessThatMeansReload(t *testing.T) {
	t.Parallel()
	idle := newRig(t, Config{})
	if idle.handle(syscall.SIGUSR1); idle.Asked() != nil {
		t.Errorf("it ends at SIGUSR1")
	}
	if idle.handle(syscall.SIGHUP); idle.Asked() != syscall.SIGHUP || idle.ctx.Err() == nil {
		t.Errorf("asked %v, %v", idle.Asked(), idle.ctx.Err())
	}
	resident := newRig(t, Config{Reload: true})
	resident.handle(syscall.SIGHUP)
	resident.handle(syscall.SIGHUP) // two before anybody looks are one
	<-resident.Reload
	if len(resident.Reload) != 0 || resident.Asked() != nil || resident.ctx.Err() != nil {
		t.Errorf("asked %v, %v", resident.Asked(), resident.ctx.Err())
	}
}

func TestCommandThatCannotBeRunIsAFailure(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	job := Job{Name: "report", Command: []string{filepath.Join(r.dir, "nothing")}}
	got := r.work(r.ctx, job, newTerm(t, time.Minute), nil)
	var start *child.StartError
	if !errors.As(got.Failure(), &start) || start.ExitCode != 127 {
		t.Errorf("%+v", got)
	}
}

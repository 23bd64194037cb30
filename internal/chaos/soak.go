//go:build unix

package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/pgleader/pgleader/internal/chaos/check"
	"github.com/pgleader/pgleader/internal/pgtest"
)

const soakProcesses = 4

// soak runs many workers on many jobs in a few processes for a long time, with faults, and looks
// whether anything grows.
func soak(ctx context.Context, out io.Writer, o options) error {
	s, err := newSite(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	fmt.Fprintf(out, "chaos: soak for %v: %d workers in %d processes, "+
		"%d jobs with %d rivals each, TTL %v, on %v\n",
		o.soak, o.soakWorkers, soakProcesses, o.soakJobs, rivals, o.ttl, s.server)
	// Of thousands of renewals a second only the beginnings of terms are of interest.
	if _, err := s.db.ExecContext(ctx, fewerTriggers); err != nil {
		return err
	}
	r := &soakRun{options: o, site: s, rng: rand.New(rand.NewPCG(o.seed, 2))}
	for i := range soakProcesses {
		proxy, err := pgtest.StartProxy(s.url)
		if err != nil {
			return err
		}
		defer proxy.Close()
		p := &soakProcess{run: r, proxy: proxy, order: soakOrder{
			URL:      application(proxy.URL, fmt.Sprintf("soak-%d", i)),
			ClockURL: application(s.url, "clock"), Process: i,
			Processes: soakProcesses, Workers: o.soakWorkers, Jobs: o.soakJobs, TTL: o.ttl,
		}}
		r.processes = append(r.processes, p)
		if err := p.start(); err != nil {
			return err
		}
		defer p.end(syscall.SIGKILL)
	}
	gauges, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { r.watch(gauges) })
	err = r.torment(ctx)
	stop()
	watching.Wait()
	if err == nil {
		err = r.judge(ctx, out)
	}
	return err
}

const fewerTriggers = `DROP TRIGGER chaos_lease ON leader_lease;
CREATE TRIGGER chaos_lease AFTER UPDATE OF token ON leader_lease FOR EACH ROW
WHEN (old.token IS DISTINCT FROM new.token) EXECUTE FUNCTION chaos_see_lease();
CREATE TRIGGER chaos_new_lease AFTER INSERT OR DELETE ON leader_lease FOR EACH ROW
EXECUTE FUNCTION chaos_see_lease()`

type soakRun struct {
	options
	site      *site
	rng       *rand.Rand
	processes []*soakProcess
	faults    map[string]int

	mu     sync.Mutex
	ends   []soakLine
	owner  []*soakProcess // of ends
	gauges []gauge
	lost   int
}

// A soakProcess is one process, and where it was stopped.
type soakProcess struct {
	run   *soakRun
	proxy *pgtest.Proxy
	order soakOrder
	cmd   *exec.Cmd
	gone  chan struct{}

	pauses []check.Pause // under run.mu, like last
	last   soakLine
}

func (p *soakProcess) start() error {
	text, err := json.Marshal(p.order)
	if err != nil {
		return err
	}
	cmd := exec.Command(p.run.site.self)
	cmd.Env = append(os.Environ(), soakEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if _, err := cmd.StdinPipe(); err != nil { // its end tells the process that this one is gone
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p.cmd, p.gone = cmd, make(chan struct{})
	go p.read(stdout, cmd, p.gone)
	return nil
}

func (p *soakProcess) read(stdout io.Reader, cmd *exec.Cmd, gone chan struct{}) {
	defer close(gone)
	lines := json.NewDecoder(stdout)
	for {
		var l soakLine
		if lines.Decode(&l) != nil {
			break
		}
		p.run.mu.Lock()
		if l.Job == "" {
			p.last = l
		} else {
			p.run.ends = append(p.run.ends, l)
			p.run.owner = append(p.run.owner, p)
			if l.Lost {
				p.run.lost++
			}
		}
		p.run.mu.Unlock()
	}
	_ = cmd.Wait()
}

func (p *soakProcess) end(sig syscall.Signal) {
	_ = p.cmd.Process.Signal(sig)
	<-p.gone
}

// torment does something to one process after another, until the time is over. The first process is
// the one that is killed: figures of a process that begins anew show nothing.
func (r *soakRun) torment(ctx context.Context) error {
	r.faults = make(map[string]int)
	for end := time.Now().Add(r.soak); time.Now().Before(end); {
		if !sleep(ctx, r.ttl+within(r.rng, 2*r.ttl)) {
			return ctx.Err()
		}
		p := r.processes[r.rng.IntN(len(r.processes))]
		length := r.ttl/4 + within(r.rng, r.ttl*3/2)
		kind := []string{"stop", "cut", "black hole", "connections terminated", "kill"}[r.rng.IntN(5)]
		r.faults[kind]++
		if err := r.befall(ctx, p, kind, length); err != nil {
			return err
		}
	}
	sleep(ctx, 3*r.ttl) // in peace
	return ctx.Err()
}

func (r *soakRun) befall(
	ctx context.Context, p *soakProcess, kind string, length time.Duration,
) error {
	switch kind {
	case "stop":
		from := time.Now()
		_ = p.cmd.Process.Signal(syscall.SIGSTOP)
		sleep(ctx, length)
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		r.mu.Lock()
		p.pauses = append(p.pauses, check.Pause{From: from.Round(0), To: time.Now().Round(0)})
		r.mu.Unlock()
	case "cut":
		p.proxy.Cut()
		sleep(ctx, length)
		return p.proxy.Restore()
	case "black hole":
		p.proxy.Freeze()
		sleep(ctx, length)
		p.proxy.Thaw()
	case "connections terminated":
		_, err := r.site.db.ExecContext(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE application_name LIKE 'soak-%'`)
		return err
	case "kill":
		p = r.processes[0]
		p.end(syscall.SIGKILL)
		return p.start()
	default:
		return errors.New("no such fault: " + kind)
	}
	return nil
}

func count(ctx context.Context, db *sql.DB, query string) (n int64, err error) {
	err = db.QueryRowContext(ctx, query).Scan(&n)
	return n, err
}

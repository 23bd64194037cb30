package pgtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ory/dockertest/v3"
	"github.com/ory/dockertest/v3/docker"
)

const (
	pingTimeout = 3 * time.Second
	// expiry is when Docker kills the container whatever happens, in case its leash was not felt.
	expiry = 4 * time.Hour
)

// label marks the containers of this package; its value is the process that started them.
const label = "pgleader.pgtest"

// container is a server in Docker.
type container struct {
	pool     *dockertest.Pool
	resource *dockertest.Resource
	leash    io.Closer
	url      string
}

// keeperScript is the container's first process. It runs the image's own entrypoint as a child. So
// the server can be stopped and started again while the container, its port and its leash stay. A
// container whose leash never came belongs to a process that was killed while it started.
const keeperScript = `
(sleep 60; [ -e /tmp/pgtest-leash ] || kill -TERM 1) &
again= pid=
trap 'again=1; kill -INT $pid' USR1
trap 'again=1; kill -QUIT $pid' USR2
trap 'exit 0' TERM
while :; do
	"$@" &
	pid=$!
	while kill -0 $pid 2>/dev/null; do
		wait $pid
		status=$?
	done
	[ -n "$again" ] || exit $status
	again=
done
`

// leashScript runs beside it. Docker closes its input when this process is gone, however it went.
const leashScript = `: >/tmp/pgtest-leash; cat >/dev/null; kill -TERM 1`

func startDocker(ctx context.Context) (*Server, error) {
	s, err := runContainer(ctx)
	if err != nil {
		return nil, fmt.Errorf("pgtest: docker: %w", err)
	}
	return s, nil
}

func runContainer(ctx context.Context) (*Server, error) {
	pool, err := dockertest.NewPool("")
	if err != nil {
		return nil, err
	}
	pingCtx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	if err := pool.Client.PingWithContext(pingCtx); err != nil {
		return nil, fmt.Errorf("no engine answers: %w", err)
	}
	name := os.Getenv("PGLEADER_POSTGRES_IMAGE")
	if name == "" {
		name = DefaultImage
	}
	image, err := findImage(ctx, pool.Client, name)
	if err != nil {
		return nil, err
	}
	removeUnstarted(ctx, pool.Client)
	// Between the choice of a port and its use somebody else may take it.
	for range 3 {
		var s *Server
		s, err = runImage(ctx, pool, name, image)
		if err == nil || !strings.Contains(err.Error(), "address already in use") &&
			!strings.Contains(err.Error(), "port is already allocated") {
			return s, err
		}
	}
	return nil, err
}

// removeUnstarted removes containers whose run was killed after it created them and before it
// started them: nothing runs there that could end them. Younger ones may be about to start.
func removeUnstarted(ctx context.Context, client *docker.Client) {
	found, err := client.ListContainers(docker.ListContainersOptions{
		All: true, Filters: map[string][]string{"label": {label}, "status": {"created"}}, Context: ctx,
	})
	if err != nil {
		return // the next run tries again
	}
	for _, c := range found {
		if time.Since(time.Unix(c.Created, 0)) > startTimeout {
			client.RemoveContainer(docker.RemoveContainerOptions{
				ID: c.ID, Force: true, RemoveVolumes: true, Context: ctx,
			})
		}
	}
}

func runImage(
	ctx context.Context, pool *dockertest.Pool, imageName string, image *docker.Image,
) (*Server, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	bindIP, host := "127.0.0.1", "127.0.0.1"
	u, err := url.Parse(pool.Client.Endpoint())
	if err == nil && u.Scheme != "unix" && u.Hostname() != "" {
		bindIP, host = "", u.Hostname()
	}
	who := newCredentials()
	env := []string{
		"POSTGRES_USER=" + who.user,
		"POSTGRES_PASSWORD=" + who.password,
		"POSTGRES_DB=postgres",
		// SCRAM costs each of a test's many connections more, and the port is bound to loopback.
		"POSTGRES_HOST_AUTH_METHOD=password",
	}
	if args := os.Getenv("POSTGRES_INITDB_ARGS"); args != "" {
		env = append(env, "POSTGRES_INITDB_ARGS="+args)
	}
	name := "pgleader-pgtest-" + strings.ToLower(rand.Text())
	repository, tag := splitImage(imageName)
	resource, err := pool.RunWithOptions(&dockertest.RunOptions{
		Name:       name,
		Repository: repository,
		Tag:        tag,
		Env:        env,
		Entrypoint: append([]string{"sh", "-c", keeperScript, "pgtest-keeper"},
			image.Config.Entrypoint...),
		Cmd:          append([]string{"postgres"}, settings()...),
		ExposedPorts: []string{"5432/tcp"},
		PortBindings: map[docker.Port][]docker.PortBinding{
			"5432/tcp": {{HostIP: bindIP, HostPort: strconv.Itoa(port)}},
		},
		Labels: map[string]string{label: strconv.Itoa(os.Getpid())},
	}, func(c *docker.HostConfig) {
		c.AutoRemove = true
		c.PublishAllPorts = false
		c.ShmSize = 256 << 20 // the default of 64 MB is too small for a parallel query or two
	})
	if err != nil {
		// It may have been created and not started.
		pool.Client.RemoveContainer(docker.RemoveContainerOptions{
			ID: name, Force: true, RemoveVolumes: true,
		})
		return nil, err
	}
	c := &container{pool: pool, resource: resource, url: who.url(host, port)}
	version, err := c.begin(ctx)
	if err != nil {
		c.close()
		return nil, err
	}
	return &Server{
		URL:     c.url,
		Version: version,
		Where:   fmt.Sprintf("in Docker (%s) on %s:%d", imageName, host, port),
		kind:    "docker",
		host:    c,
	}, nil
}

// begin ties the container to this process and waits until the server answers.
func (c *container) begin(ctx context.Context) (version string, err error) {
	if err := c.resource.Expire(uint(expiry / time.Second)); err != nil {
		return "", err
	}
	if c.leash, err = c.tie(); err != nil {
		return "", fmt.Errorf("tie the container to this process: %w", err)
	}
	// The container, and its log, are removed the moment it ends.
	var log tail
	logCtx, cancel := context.WithCancel(ctx)
	logged := make(chan struct{})
	go func() {
		defer close(logged)
		c.pool.Client.Logs(docker.LogsOptions{
			Context: logCtx, Container: c.resource.Container.ID,
			OutputStream: &log, ErrorStream: &log, Stdout: true, Stderr: true, Follow: true,
		})
	}()
	defer func() {
		cancel()
		<-logged
	}()
	version, err = c.wait(ctx)
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, log.String())
	}
	return version, nil
}

func (c *container) wait(ctx context.Context) (version string, err error) {
	return waitReady(ctx, c.url, func() error {
		info, err := c.pool.Client.InspectContainerWithContext(c.resource.Container.ID, ctx)
		var gone *docker.NoSuchContainer
		if errors.As(err, &gone) || err == nil && !info.State.Running {
			return errors.New("the container ended")
		}
		return nil
	})
}

// tie starts the leash: an exec whose input is open while this process is connected to Docker.
func (c *container) tie() (io.Closer, error) {
	exec, err := c.pool.Client.CreateExec(docker.CreateExecOptions{
		Container: c.resource.Container.ID, Cmd: []string{"sh", "-c", leashScript}, AttachStdin: true,
	})
	if err != nil {
		return nil, err
	}
	input, _ := io.Pipe()
	connected := make(chan struct{})
	leash, err := c.pool.Client.StartExecNonBlocking(exec.ID,
		docker.StartExecOptions{InputStream: input, Success: connected})
	if err != nil {
		return nil, err
	}
	<-connected
	connected <- struct{}{}
	return leash, nil
}

func (c *container) restart(ctx context.Context, immediate bool) error {
	before, _ := startTime(ctx, c.url) // a server that is down needs no comparison
	signal := docker.SIGUSR1
	if immediate {
		signal = docker.SIGUSR2
	}
	err := c.pool.Client.KillContainer(docker.KillContainerOptions{
		ID: c.resource.Container.ID, Signal: signal, Context: ctx,
	})
	if err != nil {
		return err
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if _, err := c.wait(ctx); err != nil {
			return err
		}
		// It may have been the old server that answered.
		if after, err := startTime(ctx, c.url); err == nil && after.After(before) {
			return nil
		}
		<-tick.C
	}
}

func (c *container) close() error {
	err := c.pool.Purge(c.resource)
	if c.leash != nil {
		c.leash.Close()
	}
	var gone *docker.NoSuchContainer
	if errors.As(err, &gone) {
		return nil
	}
	return err
}

// tail keeps the end of what was written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	t.buf = t.buf[max(0, len(t.buf)-4096):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.buf))
}

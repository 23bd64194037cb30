package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/ory/dockertest/v3/docker"
)

const (
	pullTimeout = 5 * time.Minute
	// pullSilence is how long a pull may show no progress: without a network nothing but time tells.
	pullSilence = 15 * time.Second
)

// findImage returns the image, pulled if need be.
func findImage(ctx context.Context, client *docker.Client, name string) (*docker.Image, error) {
	image, err := client.InspectImage(name)
	if !errors.Is(err, docker.ErrNoSuchImage) {
		return image, err
	}
	fmt.Fprintf(os.Stderr, "pgtest: pulling %s\n", name)
	ctx, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	pull := docker.PullImageOptions{
		Repository: name, Context: ctx, InactivityTimeout: pullSilence, OutputStream: io.Discard,
	}
	if !strings.Contains(name, "@") {
		pull.Repository, pull.Tag = splitImage(name)
	}
	if err := client.PullImage(pull, docker.AuthConfiguration{}); err != nil {
		return nil, fmt.Errorf("image %s is not here and can't be pulled "+
			"(scripts/build-postgres-image builds one): %w", name, err)
	}
	return client.InspectImage(name)
}

// splitImage takes repository:tag apart. A digest comes apart at its colon too, which suits the
// parts' only use: to be joined.
func splitImage(name string) (repository, tag string) {
	i := strings.LastIndexByte(name, ':')
	if i < strings.LastIndexByte(name, '/') || i < 0 {
		return name, "latest"
	}
	return name[:i], name[i+1:]
}

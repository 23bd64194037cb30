// Package operator asks who leads what and gives orders, as a person at a terminal does. It never
// takes part in an election.
package operator

import (
	"context"
	"database/sql"
	"log/slog"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/pgleader/pgleader/leader"
	"github.com/pgleader/pgleader/schedule"
)

// An Operator is an elector that holds no lease and is never a candidate, and a scheduler that
// runs nothing.
type Operator struct {
	*leader.Elector
	*schedule.Scheduler
}

// ttl makes one question last up to 10 s, a third of it.
const ttl = 30 * time.Second

// New makes an operator. A lease that it takes away says who did it, by user and host.
func New(pool *sql.DB) (*Operator, error) {
	elector, err := leader.New(pool, leader.Config{
		Holder: name(),
		TTL:    ttl,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	scheduler, err := schedule.New(elector, schedule.Config{})
	if err != nil {
		return nil, err
	}
	return &Operator{elector, scheduler}, nil
}

// Lease looks at one job. The lease of a job that was never led has token 0.
func (o *Operator) Lease(ctx context.Context, job string) (leader.Lease, error) {
	for lease, err := range o.Observe(ctx, job) {
		return lease, err
	}
	return leader.Lease{}, ctx.Err()
}

const (
	prefix   = "operator:"
	maxBytes = 200 // of a holder
)

func name() string {
	who := "unknown"
	if u, err := user.Current(); err == nil {
		who = u.Username
	} else if env := os.Getenv("USER"); env != "" {
		who = env
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	whole := prefix + who + "@" + host
	whole = strings.ToValidUTF8(whole[:min(len(whole), maxBytes)], "")
	return strings.ReplaceAll(whole, "\x00", "")
}

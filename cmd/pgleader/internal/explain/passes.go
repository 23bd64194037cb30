package explain

import (
	"context"
	"errors"
	"net"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgleader/pgleader/cmd/pgleader/internal/words"
	"github.com/pgleader/pgleader/leader"
)

// Passes reports whether the same may succeed a little later, without anybody doing anything about
// it: the server restarts, or another one takes over.
func Passes(err error) bool {
	if errors.Is(err, leader.ErrReadOnly) { // what a failover looks like
		return true
	}
	var server *pgconn.PgError
	if errors.As(err, &server) && len(server.Code) == 5 {
		switch server.Code[:2] {
		case "08", "40", "53", "57": // connection, rollback, resources, operator intervention
			return true
		}
		return false
	}
	var dns *net.DNSError
	if _, refused := words.HintOf(err); refused || errors.As(err, &dns) && dns.IsNotFound {
		return false
	}
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) ||
		errors.Is(err, context.DeadlineExceeded)
}

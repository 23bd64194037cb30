package pgxwake

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgleader/pgleader/internal/wake"
)

type session struct {
	conn *pgx.Conn
	end  context.CancelFunc // of its network connections
}

func connect(ctx context.Context, config *pgx.ConnConfig) (*session, error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	config = config.Copy()
	config.DialFunc = wake.Dial(life)
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		end()
		return nil, err
	}
	s := &session{conn: conn, end: end}
	if _, err := conn.Exec(ctx, "LISTEN "+wake.Channel); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close says farewell to the server if that can be done in a moment.
func (s *session) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.conn.Close(ctx)
	s.end()
	<-s.conn.PgConn().CleanupDone()
}

func (s *session) Receive(ctx context.Context, wakeUp func(job string)) error {
	for {
		patient, cancel := context.WithTimeout(ctx, wake.PingEvery)
		n, err := s.conn.WaitForNotification(patient)
		quiet := patient.Err() != nil && !s.conn.IsClosed()
		cancel()
		switch {
		case err == nil:
			wakeUp(n.Payload)
		case ctx.Err() != nil:
			return ctx.Err()
		case !quiet:
			return err
		default:
			if err := s.ping(ctx); err != nil {
				return fmt.Errorf("ping: %w", err)
			}
		}
	}
}

// ping asks the server for an answer: a connection whose network is gone is silent too.
func (s *session) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, wake.PingLimit)
	defer cancel()
	return s.conn.Ping(ctx)
}

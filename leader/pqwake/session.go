package pqwake

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/lib/pq"

	"github.com/pgleader/pgleader/internal/wake"
)

// A session is a pq.Listener that is used for one connection only. Left to itself it connects
// again, but sleeps between two attempts whatever happens, and can't be closed while it connects.
type session struct {
	listener *pq.Listener
	end      context.CancelFunc // of its network connections
	lost     chan error         // of capacity 1: why it did not connect, or is not connected any more
	running  sync.WaitGroup
}

func connect(ctx context.Context, url string) (*session, error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	s := &session{end: end, lost: make(chan error, 1)}
	d := &dialer{dial: wake.Dial(life)}
	s.listener = pq.NewDialListener(d, url, time.Millisecond, time.Millisecond,
		func(event pq.ListenerEventType, err error) { // called by the goroutine that dials, too
			switch event {
			case pq.ListenerEventConnected, pq.ListenerEventReconnected:
				d.connected()
			case pq.ListenerEventConnectionAttemptFailed, pq.ListenerEventDisconnected:
				s.end() // it may not connect again
				select {
				case s.lost <- err:
				default:
				}
			}
		})
	listening := make(chan error, 1)
	s.running.Go(func() { listening <- s.listener.Listen(wake.Channel) })
	var err error
	select {
	case err = <-listening:
	case err = <-s.lost:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close first ends the network connection: that ends what holds the listener's lock.
func (s *session) Close() {
	s.end()
	_ = s.listener.Close()
	for range s.listener.Notify { // closed by the listener's goroutine, as the last thing it does
	}
	s.running.Wait()
}

func (s *session) Receive(ctx context.Context, wakeUp func(job string)) error {
	ping := time.NewTicker(wake.PingEvery)
	defer ping.Stop()
	answer := make(chan error, 1)
	var late <-chan time.Time // while an answer is due
	for {
		select {
		case n, ok := <-s.listener.Notify:
			if !ok {
				return net.ErrClosed
			}
			if n != nil {
				wakeUp(n.Extra)
			}
		case err := <-s.lost:
			return err
		case <-ping.C:
			if late == nil {
				late = time.After(wake.PingLimit)
				s.running.Go(func() { answer <- s.ping() })
			}
		case err := <-answer:
			if err != nil {
				return err
			}
			late = nil
		case <-late:
			return fmt.Errorf("no answer within %v", wake.PingLimit)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ping asks the server for an answer: a connection whose network is gone is silent too. It may hang
// until Close.
func (s *session) ping() (err error) {
	defer func() {
		if recover() != nil { // lib/pq's answer to an error of the server, such as a statement_timeout
			err = errors.New("the server refused a ping")
		}
	}()
	return s.listener.Ping()
}

// A dialer is used by one goroutine only, the listener's.
type dialer struct {
	dial wake.DialFunc
	conn net.Conn // the last one
}

// DialContext bounds the login, as lib/pq does where the URL has a connect_timeout.
func (d *dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if _, bounded := ctx.Deadline(); bounded {
		return d.dial(ctx, network, address)
	}
	return d.DialTimeout(network, address, wake.ConnectLimit)
}

func (d *dialer) Dial(network, address string) (net.Conn, error) {
	return d.DialTimeout(network, address, wake.ConnectLimit)
}

func (d *dialer) DialTimeout(network, address string, limit time.Duration) (net.Conn, error) {
	deadline := time.Now().Add(limit)
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	conn, err := d.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	d.conn = conn
	return conn, conn.SetDeadline(deadline)
}

// connected takes back the deadline of the login.
func (d *dialer) connected() {
	if d.conn != nil {
		_ = d.conn.SetDeadline(time.Time{})
	}
}

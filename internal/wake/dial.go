package wake

import (
	"context"
	"net"
)

// A DialFunc opens a network connection.
type DialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// Dial returns a dialer whose connections end with the context life. So whatever a driver has
// left behind, such as a login that nobody answers or a farewell, ends with the session.
func Dial(life context.Context) DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(life, cancel)()
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		context.AfterFunc(life, func() { _ = conn.Close() })
		return conn, nil
	}
}

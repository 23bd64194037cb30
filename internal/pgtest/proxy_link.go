package pgtest

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

func (p *Proxy) accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		l := &link{client: conn, last: toClient}
		p.mu.Lock()
		if p.listener != listener { // Cut came first
			l.close(true)
			p.mu.Unlock()
			return
		}
		p.links[l] = struct{}{}
		p.mu.Unlock()
		p.wg.Go(func() { p.serve(l) })
	}
}

func (p *Proxy) serve(l *link) {
	defer func() {
		p.mu.Lock()
		l.close(false)
		delete(p.links, l)
		p.changed.Broadcast()
		p.mu.Unlock()
	}()
	// The server must not even see a connection that was opened into a frozen path.
	if !p.await(l, toServer) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	server, err := new(net.Dialer).DialContext(ctx, p.network, p.upstream)
	if err != nil {
		return
	}
	p.mu.Lock()
	l.server = server
	if l.closed {
		server.Close()
	}
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { p.pump(l, toServer, server, l.client) })
	both.Go(func() { p.pump(l, toClient, l.client, server) })
	both.Wait()
}

// await returns when bytes may pass, or false when the link is closed.
func (p *Proxy) await(l *link, dir direction) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.stopped(l, dir) {
		p.changed.Wait()
	}
	return !l.closed
}

// pump carries bytes one way. The end travels like a byte: held while frozen, then passed on.
func (p *Proxy) pump(l *link, dir direction, dst, src net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		if n > 0 && !p.deliver(l, dir, dst, buf[:n]) {
			return
		}
		if err != nil {
			if p.await(l, dir) {
				p.finish(l, dst, err)
			}
			return
		}
	}
}

func (p *Proxy) deliver(l *link, dir direction, dst net.Conn, data []byte) bool {
	p.mu.Lock()
	for p.stopped(l, dir) {
		p.changed.Wait()
	}
	if l.closed {
		p.mu.Unlock()
		return false
	}
	if dir == toServer && l.last == toClient {
		p.roundTrips++
	}
	l.last = dir
	l.writing[dir] = true
	p.mu.Unlock()

	_, err := dst.Write(data)

	p.mu.Lock()
	defer p.mu.Unlock()
	l.writing[dir] = false
	p.changed.Broadcast()
	if err != nil {
		l.close(true)
	}
	return err == nil
}

// finish passes on how the source ended: an orderly end as one, anything else as a reset.
func (p *Proxy) finish(l *link, dst net.Conn, cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	half, ok := dst.(interface{ CloseWrite() error })
	if errors.Is(cause, net.ErrClosed) || !ok || !errors.Is(cause, io.EOF) {
		l.close(true)
		p.changed.Broadcast()
		return
	}
	half.CloseWrite()
}

// close ends both sides, with a reset where asked; p.mu is held.
func (l *link) close(reset bool) {
	if l.closed {
		return
	}
	l.closed = true
	for _, conn := range []net.Conn{l.client, l.server} {
		if conn == nil {
			continue
		}
		if tcp, ok := conn.(*net.TCPConn); ok && reset {
			tcp.SetLinger(0)
		}
		conn.Close()
	}
}

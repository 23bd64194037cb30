package pgtest

import (
	"net"
	"net/url"
	"strconv"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// Proxy stands between a client and Postgres and breaks the path on command. Everything is counted
// and held per protocol byte stream, so the client must not use TLS; its URL sees to that.
type Proxy struct {
	// URL is the URL given to NewProxy, by way of the proxy.
	URL string

	network, upstream string
	address           string
	wg                sync.WaitGroup

	mu         sync.Mutex
	changed    sync.Cond // anything below
	listener   net.Listener
	links      map[*link]struct{}
	held       [2]bool // per direction
	roundTrips int64
}

type direction int

const (
	toServer direction = iota
	toClient
)

// link is one client connection and its counterpart at the server.
type link struct {
	client, server net.Conn // server is nil until dialled
	stranded       bool     // held for ever, see FreezeOpen
	late           bool     // what the client sends is held, see HoldOpen
	closed         bool
	writing        [2]bool
	last           direction // of the byte that passed last
}

// NewProxy starts a proxy to the server of the URL; it goes when the test ends.
func NewProxy(t testing.TB, rawURL string) *Proxy {
	t.Helper()
	p, err := StartProxy(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// StartProxy is NewProxy for a program that is no test: it closes the proxy itself.
func StartProxy(rawURL string) (*Proxy, error) {
	config, err := pgconn.ParseConfig(rawURL)
	if err != nil {
		return nil, err
	}
	p := &Proxy{links: map[*link]struct{}{}}
	p.changed.L = &p.mu
	p.network, p.upstream = pgconn.NetworkAddress(config.Host, config.Port)
	for range 3 { // between the choice of a port and its use somebody else may take it
		// A port that outgoing connections don't draw from, so that Restore gets it back.
		var port int
		if port, err = freePort(); err != nil {
			return nil, err
		}
		p.address = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		if err = p.Restore(); err == nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	if p.URL, err = through(rawURL, p.address); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Close cuts what is open and waits until nothing runs any more.
func (p *Proxy) Close() {
	p.Cut()
	p.wg.Wait()
}

func through(rawURL, address string) (string, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "", err
	}
	query := u.Query()
	query.Del("host")
	query.Del("port")
	query.Set("sslmode", "disable")
	u.Host, u.RawQuery = address, query.Encode()
	return u.String(), nil
}

// Freeze stops every byte, both ways, on open connections and on new ones, which are still
// accepted. Connections stay up, and a peer that closes one is not noticed by the other. When it
// returns, nothing passes any more; what arrives is held for Thaw.
func (p *Proxy) Freeze() { p.hold(true, true) }

// FreezeReplies stops only what the server sends. Statements still run, with an unknown outcome.
func (p *Proxy) FreezeReplies() { p.hold(false, true) }

// Thaw ends a Freeze or FreezeReplies; what was held is delivered. It does not revive what
// FreezeOpen froze.
func (p *Proxy) Thaw() { p.hold(false, false) }

func (p *Proxy) hold(toServerHeld, toClientHeld bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = [2]bool{toServerHeld, toClientHeld}
	p.changed.Broadcast()
	p.settle()
}

// FreezeOpen freezes the connections that are open now, for ever, while new ones pass. It is as if
// the path were back, but a router in between had forgotten the old connections.
func (p *Proxy) FreezeOpen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.stranded = true
	}
	p.settle()
}

// HoldOpen holds what is sent to the server on the connections that are open now, until
// DeliverHeld, while new ones pass. A statement then arrives after its own retry, also if its
// client has given the connection up.
func (p *Proxy) HoldOpen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.late = true
	}
	p.settle()
}

// DeliverHeld ends every HoldOpen: what was held arrives now.
func (p *Proxy) DeliverHeld() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.late = false
	}
	p.changed.Broadcast()
}

// settle waits until no write that began before a freeze is under way.
func (p *Proxy) settle() {
	for p.underWay() {
		p.changed.Wait()
	}
}

func (p *Proxy) underWay() bool {
	for l := range p.links {
		for _, dir := range []direction{toServer, toClient} {
			if l.writing[dir] && p.stopped(l, dir) {
				return true
			}
		}
	}
	return false
}

func (p *Proxy) stopped(l *link, dir direction) bool {
	return !l.closed && (l.stranded || l.late && dir == toServer || p.held[dir])
}

// Cut resets all connections at both ends and refuses new ones, until Restore.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		p.listener.Close()
		p.listener = nil
	}
	for l := range p.links {
		l.close(true)
	}
	p.changed.Broadcast()
}

// Restore accepts connections again after a Cut. It does not end a Freeze.
func (p *Proxy) Restore() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		return nil
	}
	listener, err := net.Listen("tcp", p.address)
	if err != nil {
		return err
	}
	p.listener = listener
	p.wg.Go(func() { p.accept(listener) })
	return nil
}

// RoundTrips counts how often the direction turned towards the server: a client had the last word,
// and the server was to speak. Logging in counts too, so take the difference between two calls.
func (p *Proxy) RoundTrips() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.roundTrips
}

// Connections counts the client connections that are open, frozen ones included.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

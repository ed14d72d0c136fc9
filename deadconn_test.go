package ma2h_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
)

// pipes is a network without sockets, whose connections can go deaf: what is
// written is lost and nothing is read, as when a hop forgets a connection.
type pipes struct {
	accept chan net.Conn
	closed chan struct{}
	once   sync.Once
	mu     sync.Mutex
	dialed []*deafConn
}

func newPipes() *pipes { return &pipes{accept: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accept:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close ends the listener and every connection.
func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.dialed {
		_ = c.Close()
	}
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 443} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	c := &deafConn{Conn: near, gone: make(chan struct{})}
	p.mu.Lock()
	p.dialed = append(p.dialed, c)
	p.mu.Unlock()
	select {
	case p.accept <- far:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) dials() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.dialed)
}

// deafen cuts all connections without telling either end.
func (p *pipes) deafen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.dialed {
		c.mu.Lock()
		c.deaf = true
		c.mu.Unlock()
	}
}

type deafConn struct {
	net.Conn
	mu   sync.Mutex
	deaf bool
	gone chan struct{}
	once sync.Once
}

func (c *deafConn) isDeaf() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.deaf
}

func (c *deafConn) Write(p []byte) (int, error) {
	if c.isDeaf() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c *deafConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.isDeaf() {
		<-c.gone
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *deafConn) Close() error {
	c.once.Do(func() { close(c.gone) })
	return c.Conn.Close()
}

// report: B028
func TestAHeldRequestOnADeadConnectionComesBackOnANewOne(t *testing.T) {
	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(proto, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hub := ma2htest.NewHub(t)
				network := newPipes()
				var mu sync.Mutex
				var served []string
				server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					mu.Lock()
					served = append(served, r.Proto)
					mu.Unlock()
					hub.ServeHTTP(w, r)
				}))
				_ = server.Listener.Close()
				server.Listener, server.EnableHTTP2 = network, proto == "HTTP/2.0"
				server.StartTLS()
				own := &http.Transport{
					DialContext: network.dial, ForceAttemptHTTP2: proto == "HTTP/2.0",
					TLSClientConfig: server.Client().Transport.(*http.Transport).TLSClientConfig.Clone(),
				}
				defer func() { own.CloseIdleConnections(); _ = network.Close(); server.Close() }()
				cfg := hub.Config(asker)
				cfg.HubURL, cfg.HTTPClient, cfg.MaxWait = "https://example.com", &http.Client{Transport: own}, 2*time.Second
				c := connect(t, cfg)
				id := mustAsk(t, c, shipOrHold("k"))
				done := make(chan *ma2h.Response)
				go func() {
					r, err := c.Wait(t.Context(), id)
					if err != nil {
						t.Error(err)
					}
					done <- r
				}()
				mustNot(t, hub.AwaitHold(t.Context(), id))
				before := network.dials()
				network.deafen()
				mustNot(t, hub.Answer(id, "ship"))
				begin := time.Now()
				r := <-done
				if last := served[len(served)-1]; last != proto {
					t.Errorf("spoke %s", last)
				}
				if !r.Answered("ship") || network.dials() == before {
					t.Errorf("%v", r)
				}
				if d := time.Since(begin); d > 30*time.Second {
					t.Errorf("took %s", d)
				}
			})
		})
	}
}

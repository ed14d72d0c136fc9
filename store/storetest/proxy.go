package storetest

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

func dial(address string) error {
	c, err := net.DialTimeout("tcp", address, 2*time.Second)
	if err != nil {
		return err
	}
	return c.Close()
}

// Proxy is a TCP relay on a loopback port that a test can cut: what an engine
// that dies looks like from outside.
type Proxy struct {
	target string
	listen net.Listener

	mu    sync.Mutex
	down  bool
	hangs bool
	conns map[net.Conn]bool
}

// NewProxy starts a relay to target. It ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{target: target, listen: l, conns: make(map[net.Conn]bool)}
	go p.serve()
	t.Cleanup(func() {
		_ = l.Close()
		p.Cut()
	})
	return p
}

// Address is where to connect instead of the target.
func (p *Proxy) Address() string { return p.listen.Addr().String() }

// Cut breaks every connection and refuses new ones.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = true
	for c := range p.conns {
		_ = c.Close()
	}
}

// Hang takes connections and answers nothing.
func (p *Proxy) Hang() {
	p.Cut()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down, p.hangs = false, true
}

// Restore lets connections through again; those that hung break.
func (p *Proxy) Restore() {
	p.Cut()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down, p.hangs = false, false
}

func (p *Proxy) serve() {
	for {
		c, err := p.listen.Accept()
		if err != nil {
			return
		}
		if !p.hold(c) {
			_ = c.Close()
			continue
		}
		go p.relay(c)
	}
}

func (p *Proxy) hold(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		return false
	}
	p.conns[c] = true
	return true
}

func (p *Proxy) let(c net.Conn) {
	_ = c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

func (p *Proxy) relay(c net.Conn) {
	defer p.let(c)
	p.mu.Lock()
	hangs := p.hangs
	p.mu.Unlock()
	if hangs {
		_, _ = io.Copy(io.Discard, c)
		return
	}
	up, err := net.DialTimeout("tcp", p.target, 2*time.Second)
	if err != nil || !p.hold(up) {
		return
	}
	defer p.let(up)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(up, c)
		_ = up.Close()
	}()
	_, _ = io.Copy(c, up)
	_ = c.Close()
	<-done
}

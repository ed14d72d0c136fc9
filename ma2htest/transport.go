package ma2htest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"syscall"
)

// memoryHost is the host of MemoryURL. The transport answers any host.
const memoryHost = "hub.test"

// MemoryURL is the base URL of the Hub for a client that uses Transport.
func (h *Hub) MemoryURL() string { return "https://" + memoryHost + h.opts.PathPrefix }

// Transport reaches the Hub without a socket or a timer. It may be used inside
// testing/synctest, if the Hub was made in the bubble. It honours the context
// of a request at once, refuses plain http, and fails as a network does: a
// reset is a net.Error, a torn body io.ErrUnexpectedEOF.
func (h *Hub) Transport() http.RoundTripper { return memoryTransport{hub: h, to: h} }

type memoryTransport struct {
	hub   *Hub
	to    http.Handler
	plain bool // takes http too
}

func (t memoryTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	body := &onceCloser{ReadCloser: http.NoBody}
	if req.Body != nil {
		body.ReadCloser = req.Body
	}
	if req.URL.Scheme != "https" && !t.plain {
		_ = body.Close()
		return nil, errors.New("ma2htest: the Hub offers no plaintext (§8)")
	}
	if err := req.Context().Err(); err != nil {
		_ = body.Close()
		return nil, err
	}
	ctx, cancel := context.WithCancel(req.Context())
	x := &exchange{ctx: ctx, cancel: cancel, header: make(http.Header), more: make(chan struct{}), started: make(chan struct{})}
	inner := req.Clone(ctx)
	inner.Body = body
	inner.RequestURI = req.URL.RequestURI()
	inner.RemoteAddr = "memory"
	inner.Proto, inner.ProtoMajor, inner.ProtoMinor = "HTTP/2.0", 2, 0
	if req.URL.Scheme == "https" {
		inner.TLS = &tls.ConnectionState{Version: tls.VersionTLS13, HandshakeComplete: true, ServerName: req.URL.Hostname()}
	}
	if inner.Host == "" {
		inner.Host = req.URL.Host
	}
	if !t.hub.enter() {
		cancel()
		_ = body.Close()
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	go func() {
		defer t.hub.inFlight.Done()
		x.serve(t.to, inner)
		_ = body.Close()
		cancel() // what was written stays readable
	}()
	select {
	case <-x.started:
	case <-req.Context().Done():
		cancel()
		_ = body.Close()
		return nil, req.Context().Err()
	}
	resp, err := x.response(req)
	if gone := req.Context().Err(); err != nil && gone != nil {
		return nil, gone // the handler was faster to notice
	}
	return resp, err
}

// enter counts a handler in, unless the Hub is closed.
func (h *Hub) enter() bool {
	h.lock()
	defer h.unlock()
	if h.isClosed {
		return false
	}
	h.inFlight.Add(1)
	return true
}

// onceCloser lets the handler and the caller both close a request body.
type onceCloser struct {
	io.ReadCloser
	once sync.Once
}

func (c *onceCloser) Close() (err error) {
	c.once.Do(func() { err = c.ReadCloser.Close() })
	return err
}

// exchange is one request and its answer. What the handler writes is buffered
// without bound, so a handler never waits for its reader.
type exchange struct {
	ctx     context.Context
	cancel  context.CancelFunc
	header  http.Header
	started chan struct{} // closed with the header, or with a failure

	mu     sync.Mutex
	status int
	sent   http.Header // header as it was sent
	length int64       // announced, -1 if not
	count  int64       // written
	buf    []byte
	more   chan struct{} // closed and replaced when buf or end changes
	closed bool          // by the client
	end    error         // io.EOF or a failure, once the handler is done
}

func (x *exchange) serve(h http.Handler, r *http.Request) {
	end := io.EOF
	defer func() {
		if p := recover(); p != nil {
			end = &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
			if p != http.ErrAbortHandler {
				end = fmt.Errorf("ma2htest: the handler failed: %v", p)
			}
		}
		x.finish(end)
	}()
	h.ServeHTTP(x, r)
	x.WriteHeader(http.StatusOK)
}

func (x *exchange) finish(end error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if end == io.EOF && x.length >= 0 && x.count < x.length {
		end = io.ErrUnexpectedEOF
	}
	x.end = end
	x.wake()
	if x.status == 0 {
		close(x.started)
	}
}

func (x *exchange) wake() {
	close(x.more)
	x.more = make(chan struct{})
}

// Header, WriteHeader and Write are the handler's side.
func (x *exchange) Header() http.Header { return x.header }

func (x *exchange) WriteHeader(status int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.status != 0 {
		return
	}
	x.status, x.sent, x.length = status, x.header.Clone(), -1
	if n, err := strconv.ParseInt(x.sent.Get("Content-Length"), 10, 64); err == nil {
		x.length = n
	}
	close(x.started)
}

func (x *exchange) Write(b []byte) (int, error) {
	x.WriteHeader(http.StatusOK)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.buf = append(x.buf, b...)
	x.count += int64(len(b))
	x.wake()
	return len(b), nil
}

// Flush is here for handlers that stream; every write is sent at once.
func (x *exchange) Flush() {}

func (x *exchange) response(req *http.Request) (*http.Response, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.status == 0 {
		x.cancel()
		return nil, x.end
	}
	return &http.Response{
		Status: strconv.Itoa(x.status) + " " + http.StatusText(x.status), StatusCode: x.status,
		Proto: "HTTP/2.0", ProtoMajor: 2, Header: x.sent, ContentLength: x.length,
		Body: x, Request: req, TLS: &tls.ConnectionState{Version: tls.VersionTLS13, HandshakeComplete: true},
	}, nil
}

// Read and Close are the client's side: the body of the answer.
func (x *exchange) Read(p []byte) (int, error) {
	for {
		x.mu.Lock()
		n := copy(p, x.buf)
		x.buf = x.buf[n:]
		end, more, closed, gone := x.end, x.more, x.closed, x.ctx.Err()
		x.mu.Unlock()
		switch {
		case closed:
			return 0, http.ErrBodyReadAfterClose
		case n > 0 || len(p) == 0:
			return n, nil
		case end != nil:
			return 0, end
		case gone != nil:
			return 0, gone
		}
		select {
		case <-more:
		case <-x.ctx.Done():
		}
	}
}

// Close ends the handler's context.
func (x *exchange) Close() error {
	x.mu.Lock()
	x.closed = true
	x.mu.Unlock()
	x.cancel()
	return nil
}

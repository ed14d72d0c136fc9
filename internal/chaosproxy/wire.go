package chaosproxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
)

// answer is an answer that has arrived whole.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func readAnswer(resp *http.Response) (*answer, error) {
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return &answer{resp.StatusCode, resp.Header.Clone(), body}, err
}

func (a *answer) response(r *http.Request, body io.Reader) *http.Response {
	a.header.Del("Content-Length")
	return &http.Response{
		StatusCode: a.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: a.header,
		Body: io.NopCloser(body), ContentLength: int64(len(a.body)), Request: r,
	}
}

// torn reads half of a body and breaks.
func torn(body []byte) io.Reader {
	return io.MultiReader(bytes.NewReader(body[:len(body)/2]), broken{})
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func discard(resp *http.Response, err error) {
	if err == nil {
		_, _ = io.Copy(io.Discard, resp.Body) // it goes nowhere
		_ = resp.Body.Close()
	}
}

type connKey struct{}

// ConnContext is for the server in front of a Proxy, so that a cut can end the
// connection and not the request alone.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// ServeHTTP is RoundTrip for a client on the wire.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resp, err := p.RoundTrip(r)
	if err != nil {
		p.cut(r, err)
	}
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(resp.StatusCode)
	if _, err := io.Copy(w, resp.Body); err != nil && r.Context().Err() == nil {
		_ = http.NewResponseController(w).Flush() // what there is of it
		p.cut(r, errCut)
	}
}

// cut ends the request, and now and then its connection with all that is on it.
func (p *Proxy) cut(r *http.Request, err error) {
	if c, ok := r.Context().Value(connKey{}).(net.Conn); ok && err == errCut {
		p.mu.Lock()
		whole := !p.calm() && p.dice.rand.IntN(4) == 0
		if whole {
			p.conns++
		}
		p.mu.Unlock()
		if t, ok := c.(*tls.Conn); ok {
			c = t.NetConn()
		}
		if whole {
			_ = c.Close() // the other end finds out
		}
	}
	panic(http.ErrAbortHandler)
}

// Handler carries requests to a handler in this process.
func Handler(h http.Handler) http.RoundTripper { return inProcess{h} }

type inProcess struct{ handler http.Handler }

func (i inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	i.handler.ServeHTTP(w, r)
	return w.Result(), nil
}

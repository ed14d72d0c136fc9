package ma2htest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// closeCounter counts how often a request body was closed.
type closeCounter struct {
	io.Reader
	closed atomic.Int32
}

func (c *closeCounter) Close() error { c.closed.Add(1); return nil }

// req: DISC-12
func TestTheMemoryTransportOffersNoPlaintextAndClosesBodies(t *testing.T) {
	hub := NewHub(t)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tt := range map[string]struct {
		ctx context.Context
		url string
	}{
		"plain http":       {t.Context(), "http://hub.test/v1/messages"},
		"a finished ctx":   {cancelled, "https://hub.test/v1/messages"},
		"an ordinary one":  {t.Context(), "https://hub.test/v1/messages"},
		"an unknown scope": {t.Context(), "https://hub.test/nowhere"},
	} {
		body := &closeCounter{Reader: bytes.NewReader([]byte("{}"))}
		req, err := http.NewRequestWithContext(tt.ctx, "POST", tt.url, body)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := hub.Transport().RoundTrip(req)
		if (err == nil) != (name[:2] == "an") {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			resp.Body.Close()
		}
		hub.inFlight.Wait()
		if n := body.closed.Load(); n != 1 {
			t.Errorf("%s: body closed %d times", name, n)
		}
	}
	hub.RequireRequests(t, "", 2)
}

func TestAResetInMemoryIsANetError(t *testing.T) {
	hub := NewHub(t)
	hub.Fault(ResetBefore(1))
	_, err := memory(t, hub).try(t.Context(), "POST", "/v1/messages", ask("k1"))
	ne, ok := errors.AsType[*net.OpError](err)
	if !ok || ne.Timeout() || !isError(err, syscall.ECONNRESET) {
		t.Fatal(err)
	}
	hub.Close()
	if _, err = memory(t, hub).try(t.Context(), "POST", "/v1/messages", ask("k1")); !isError(err, syscall.ECONNREFUSED) {
		t.Fatal(err)
	}
}

func TestABodyThatNeverComesEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := NewHub(t)
		pr, pw := io.Pipe()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, "POST", hub.MemoryURL()+"/v1/messages", pr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = hub.Transport().RoundTrip(req); !isError(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if _, err := pw.Write([]byte("x")); !isError(err, io.ErrClosedPipe) {
			t.Fatal(err)
		}
		hub.RequireRequests(t, "", 0)
	})
}

// stream is a handler that writes, waits and writes again.
type stream struct {
	next  chan struct{}
	ended chan struct{}
}

func (s stream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer close(s.ended)
	_, _ = w.Write([]byte("one"))
	w.WriteHeader(http.StatusTeapot) // too late
	select {
	case <-s.next:
		_, _ = w.Write([]byte("two"))
	case <-r.Context().Done():
		panic("left")
	}
}

func TestTheMemoryTransportStreams(t *testing.T) {
	run := func(s stream) (*http.Response, *exchange) {
		ctx, cancel := context.WithCancel(t.Context())
		x := &exchange{ctx: ctx, cancel: cancel, header: make(http.Header), more: make(chan struct{}), started: make(chan struct{})}
		req := httptest.NewRequestWithContext(ctx, "GET", "https://hub.test/", nil)
		go x.serve(s, req)
		<-x.started
		resp, err := x.response(req)
		if err != nil {
			t.Fatal(err)
		}
		return resp, x
	}
	s := stream{make(chan struct{}), make(chan struct{})}
	resp, _ := run(s)
	buf := make([]byte, 16)
	if n, err := resp.Body.Read(buf); string(buf[:n]) != "one" || err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(string(buf[:n]), err)
	}
	close(s.next)
	if rest, err := io.ReadAll(resp.Body); string(rest) != "two" || err != nil {
		t.Fatal(string(rest), err)
	}
	s = stream{make(chan struct{}), make(chan struct{})}
	resp, _ = run(s)
	if n, err := resp.Body.Read(buf); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	resp.Body.Close()
	<-s.ended
	if _, err := resp.Body.Read(buf); !isError(err, http.ErrBodyReadAfterClose) {
		t.Fatal(err)
	}
}

func TestAPanicInMemoryIsAnErrorOfTheRequest(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	x := &exchange{ctx: ctx, cancel: cancel, header: make(http.Header), more: make(chan struct{}), started: make(chan struct{})}
	x.serve(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("broken") }), httptest.NewRequest("GET", "/", nil))
	if _, err := x.response(nil); err == nil || isError(err, syscall.ECONNRESET) {
		t.Fatal(err)
	}
}

func TestTheHubServesAsAHandlerOfTheCallersServer(t *testing.T) {
	hub := NewHub(t)
	server := httptest.NewServer(http.StripPrefix("", hub))
	defer server.Close()
	w := &wire{t, hub, server.URL, server.Client(), hub.Token(bot)}
	if ack := w.do("POST", "/v1/messages", ask("k1")).ack(t); ack.PollURL != server.URL+"/v1/messages/"+ack.ID {
		t.Fatal(ack.PollURL)
	}
}

func TestAThousandHoldsInMemoryEndTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := NewHub(t)
		w := memory(t, hub)
		id := w.submit(ask("k1"))
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() { w.do("GET", "/v1/messages/"+id+"?wait=60", "").view(t) })
		}
		wg.Wait()
		if m, _ := hub.Message(id); m.Holds != 0 {
			t.Fatal(m.Holds)
		}
	})
}

func TestTheServerSpeaksHTTP2(t *testing.T) {
	hub := NewHub(t)
	resp, err := hub.Client().Get(hub.URL() + "/.well-known/ma2h")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.ProtoMajor != 2 {
		t.Fatal(resp.Proto)
	}
}

package ma2h_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ma2h/ma2h-go"
	"github.com/ma2h/ma2h-go/ma2htest"
)

// report: B006
func TestACallersRoundTripperThatWrapsTheBodyWorks(t *testing.T) {
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, _ *ma2h.Client) {
		hub.Fault(ma2htest.Status(503, 2))
		var logged bytes.Buffer
		cfg := hub.Config(asker)
		base := cfg.HTTPClient.Transport
		cfg.HTTPClient = &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Body != nil {
				r = r.Clone(r.Context())
				r.GetBody = nil
				r.Body = struct {
					io.Reader
					io.Closer
				}{io.TeeReader(r.Body, &logged), r.Body}
			}
			return base.RoundTrip(r)
		})}
		mustAsk(t, connect(t, cfg), shipOrHold("k"))
		all := attempts(t, hub)["k"]
		if len(all) != 3 || !bytes.Equal(all[0], all[2]) || logged.Len() != 3*len(all[0]) {
			t.Errorf("%d attempts, %d bytes seen", len(all), logged.Len())
		}
	})
}

// tunnel is a proxy that passes CONNECT through and forwards plain requests.
// It counts both.
func tunnel(t *testing.T) (proxy *url.URL, connects, forwards *atomic.Int64) {
	connects, forwards = new(atomic.Int64), new(atomic.Int64)
	var wg sync.WaitGroup
	var mu sync.Mutex // no tunnel begins once the end is awaited
	ended := false
	plain := &http.Transport{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			forwards.Add(1)
			out := r.Clone(r.Context())
			out.RequestURI = ""
			resp, err := plain.RoundTrip(out)
			if err != nil {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			defer resp.Body.Close()
			for k, v := range resp.Header {
				w.Header()[k] = v
			}
			w.WriteHeader(resp.StatusCode)
			_, _ = io.Copy(w, resp.Body)
			return
		}
		connects.Add(1)
		far, err := net.Dial("tcp", r.Host)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		near, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = near.Write([]byte("HTTP/1.1 200 OK\r\n\r\n"))
		mu.Lock()
		defer mu.Unlock()
		if ended {
			_, _ = near.Close(), far.Close()
			return
		}
		for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
			wg.Go(func() {
				_, _ = io.Copy(pair[0], pair[1])
				_, _ = pair[0].Close(), pair[1].Close()
			})
		}
	}))
	t.Cleanup(func() {
		plain.CloseIdleConnections()
		s.Close()
		mu.Lock()
		ended = true
		mu.Unlock()
		wg.Wait()
	})
	u, err := url.Parse(s.URL)
	mustNot(t, err)
	return u, connects, forwards
}

func TestACallersProxyAndTimeoutAreKept(t *testing.T) {
	hub := ma2htest.NewHub(t)
	proxy, connects, _ := tunnel(t)
	own := &http.Transport{
		Proxy:                 http.ProxyURL(proxy),
		TLSClientConfig:       hub.Client().Transport.(*http.Transport).TLSClientConfig.Clone(),
		ResponseHeaderTimeout: 10 * time.Second, ForceAttemptHTTP2: true,
	}
	defer own.CloseIdleConnections()
	cfg := hub.ConfigTLS(asker)
	cfg.HTTPClient = &http.Client{Transport: own, Timeout: 20 * time.Second}
	c := connect(t, cfg)
	id := mustAsk(t, c, shipOrHold("k"))
	go func() {
		if err := hub.AwaitHold(t.Context(), id); err != nil {
			t.Error(err)
		}
		if err := hub.Answer(id, "ship"); err != nil {
			t.Error(err)
		}
	}()
	r, err := c.Wait(t.Context(), id)
	mustNot(t, err)
	if !r.Answered("ship") || connects.Load() == 0 {
		t.Errorf("%v, %d tunnels", r, connects.Load())
	}
	for _, r := range hub.Requests() {
		if r.Endpoint == ma2htest.Pull && r.Query != "wait=6" {
			t.Errorf("polled with %s under a ResponseHeaderTimeout of 10s", r.Query)
		}
	}
}

func TestAPlainProxyToALoopbackHubIsKept(t *testing.T) {
	hub := ma2htest.NewHub(t)
	server := httptest.NewServer(hub)
	defer server.Close()
	proxy, _, forwards := tunnel(t)
	own := &http.Transport{Proxy: http.ProxyURL(proxy)}
	defer own.CloseIdleConnections()
	cfg := hub.Config(asker)
	cfg.HubURL, cfg.AllowInsecureLoopback, cfg.HTTPClient = server.URL, true, &http.Client{Transport: own}
	mustAsk(t, connect(t, cfg), shipOrHold("k"))
	if forwards.Load() != 2 {
		t.Errorf("%d requests through the proxy", forwards.Load())
	}
	hub.RequireMessages(t, 1)
}

// idler counts how often its idle connections were closed.
type idler struct {
	http.RoundTripper
	closed atomic.Int64
}

func (i *idler) CloseIdleConnections() { i.closed.Add(1) }

func TestASharedHTTPClientIsLeftAsItIs(t *testing.T) {
	bubble(t, ma2htest.Options{}, func(t *testing.T, hub *ma2htest.Hub, _ *ma2h.Client) {
		cfg := hub.Config(asker)
		base := &idler{RoundTripper: cfg.HTTPClient.Transport}
		shared := &http.Client{Transport: base, Timeout: time.Minute}
		before := *shared
		cfg.HTTPClient = shared
		c := connect(t, cfg)
		hub.Fault(ma2htest.Status(503, 2), ma2htest.Status(422, 1), ma2htest.Redirect(1, "https://evil.test/"), ma2htest.Status(503, 0))
		for i := range 4 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			_, err := c.Ask(ctx, shipOrHold(strconv.Itoa(i)))
			if (i == 0) == errors.Is(err, ma2h.ErrOutcomeUnknown) {
				t.Log(err)
			}
			cancel()
		}
		if n := base.closed.Load(); n != 0 {
			t.Errorf("idle connections were closed %d times", n)
		}
		if shared.Transport != before.Transport || shared.Timeout != before.Timeout || shared.CheckRedirect != nil || shared.Jar != nil {
			t.Error("the client was changed")
		}
	})
}

func TestAServerWithoutTLSIsAnErrorAtOnce(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	own := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	defer own.CloseIdleConnections()
	cfg := over(own)
	cfg.HubURL = strings.Replace(server.URL, "http://", "https://", 1)
	c := connect(t, cfg)
	_, err := c.Ask(t.Context(), shipOrHold("k"))
	wants(t, err, http.ErrSchemeMismatch)
	_, err = c.Wait(t.Context(), "msg_1")
	wants(t, err, http.ErrSchemeMismatch)
}

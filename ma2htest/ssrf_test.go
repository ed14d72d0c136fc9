package ma2htest

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

// req: FH-08
func TestAHubSendsToPublicAddressesOnly(t *testing.T) {
	for _, tc := range []struct{ name, refused, twin string }{
		{"unspecified", "0.0.0.0", "1.0.0.0"},
		{"this network", "0.255.255.255", "1.0.0.1"},
		{"private 10", "10.0.0.0", "9.255.255.255"},
		{"private 10, end", "10.255.255.255", "11.0.0.0"},
		{"private 172.16", "172.16.0.0", "172.15.255.255"},
		{"private 172.31", "172.31.255.255", "172.32.0.0"},
		{"private 192.168", "192.168.0.0", "192.167.255.255"},
		{"private 192.168, end", "192.168.255.255", "192.169.0.0"},
		{"carrier-grade NAT", "100.64.0.0", "100.63.255.255"},
		{"carrier-grade NAT, end", "100.127.255.255", "100.128.0.0"},
		{"a cloud's metadata in it", "100.100.100.200", "100.200.100.200"},
		{"loopback", "127.0.0.1", "126.0.0.1"},
		{"loopback, end", "127.255.255.255", "128.0.0.0"},
		{"link-local", "169.254.0.0", "169.253.255.255"},
		{"metadata", "169.254.169.254", "169.253.169.254"},
		{"a metadata address that is public", "168.63.129.16", "168.63.129.17"},
		{"protocol assignments", "192.0.0.192", "192.0.1.192"},
		{"documentation", "192.0.2.1", "192.0.3.1"},
		{"documentation 2", "198.51.100.1", "198.51.101.1"},
		{"documentation 3", "203.0.113.1", "203.0.114.1"},
		{"relays of 6to4", "192.88.99.1", "192.88.98.1"},
		{"benchmarks", "198.18.0.0", "198.17.255.255"},
		{"benchmarks, end", "198.19.255.255", "198.20.0.0"},
		{"multicast", "224.0.0.1", "223.255.255.255"},
		{"reserved", "240.0.0.1", "8.8.8.8"},
		{"broadcast", "255.255.255.255", "8.8.4.4"},
		{"v6 unspecified", "::", "2000::"},
		{"v6 loopback", "::1", "2606:4700::1"},
		{"v6 link-local", "fe80::1", "2a00::1"},
		{"v6 with a zone", "2606:4700::1%eth0", "2606:4700::1"},
		{"v6 site-local", "fec0::1", "2a00:1::1"},
		{"v6 unique local", "fc00::1", "2620::1"},
		{"v6 unique local, other half", "fd12:3456::1", "2620:1::1"},
		{"v6 metadata", "fd00:ec2::254", "2600:ec2::254"},
		{"v6 multicast", "ff02::1", "2c00::1"},
		{"v6 documentation", "2001:db8::1", "2001:db7::1"},
		{"v6 documentation 2", "3fff::1", "3fff:1000::1"},
		{"v6 protocol assignments", "2001:1ff::1", "2001:200::1"},
		{"Teredo", "2001::1", "2001:4860::1"},
		{"6to4", "2002:a9fe:a9fe::1", "2003::1"},
		{"v6 discard", "100::1", "2400::1"},
		{"mapped loopback", "::ffff:127.0.0.1", "::ffff:8.8.8.8"},
		{"mapped metadata", "::ffff:169.254.169.254", "::ffff:169.253.169.254"},
		{"mapped private", "::ffff:10.1.2.3", "::ffff:11.1.2.3"},
		{"compatible loopback", "::127.0.0.1", "2606:4700::7f00:1"},
		{"NAT64 of metadata", "64:ff9b::a9fe:a9fe", "64:ff9b::808:808"},
		{"NAT64 of private", "64:ff9b::a00:1", "64:ff9b::b00:1"},
		{"NAT64 of local use", "64:ff9b:1::808:808", "64:ff9b::808:404"},
		{"translated", "::ffff:0:169.254.169.254", "2606:4700::a9fe:a9fe"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			strict, relaxed := NewHub(t), NewHub(t, Options{AllowLoopbackCallbacks: true})
			refused, twin := netip.MustParseAddr(tc.refused), netip.MustParseAddr(tc.twin)
			for _, hub := range []*Hub{strict, relaxed} {
				if err := hub.admit(twin, false); err != nil {
					t.Fatalf("%s: %v", twin, err)
				}
				if err := hub.admit(twin, true); !errors.Is(err, ErrPushRefused) {
					t.Fatalf("plain http to %s: %v", twin, err)
				}
			}
			if err := strict.admit(refused, false); !errors.Is(err, ErrPushRefused) {
				t.Fatalf("%s: %v", refused, err)
			}
			loopback := refused.Unmap().IsLoopback()
			for _, plain := range []bool{false, true} {
				if err := relaxed.admit(refused, plain); loopback != (err == nil) {
					t.Fatalf("relaxed for loopback, %s: %v", refused, err)
				}
			}
		})
	}
}

// count is a server that counts requests.
func count(t *testing.T, answer func(n int32) int, start func(http.Handler) *httptest.Server) (*httptest.Server, *atomic.Int32) {
	t.Helper()
	var n atomic.Int32
	s := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(answer(n.Add(1))) }))
	t.Cleanup(s.Close)
	return s, &n
}

func always(status int) func(int32) int { return func(int32) int { return status } }

// req: FH-08
func TestLoopbackIsRefusedUnlessATestAllowsItByName(t *testing.T) {
	server, n := count(t, always(200), httptest.NewTLSServer)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	for _, allowed := range []bool{false, true} {
		hub := NewHub(t, Options{Start: start, AllowLoopbackCallbacks: allowed, CallbackRoots: roots})
		id := answered(t, hub, pushAsk("k", fields{"url": server.URL + "/cb"}))
		hub.Advance(time.Hour)
		hub.RequirePushes(t, id, 1)
		p := hub.Pushes(id)[0]
		if allowed {
			if p.Status != 200 || n.Load() != 1 {
				t.Fatalf("%+v after %d requests", p.Err, n.Load())
			}
			hub.RequireDelivery(t, id, types.DeliveredToAgent)
			if left := goroutinesOf("http.(*persistConn)"); left != "" {
				t.Fatal(left)
			}
		} else if !errors.Is(p.Err, ErrPushRefused) || errors.Is(p.Err, ErrPushNetwork) || n.Load() != 0 {
			t.Fatalf("%+v after %d requests", p.Err, n.Load())
		}
	}
}

// req: FH-08
func TestANameThatTurnsToMetadataIsCaughtAtTheNextAttempt(t *testing.T) {
	server, n := count(t, always(503), httptest.NewServer)
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	lookups := 0
	hub := NewHub(t, Options{Start: start, AllowLoopbackCallbacks: true, Resolve: func(_ context.Context, host string) ([]netip.Addr, error) {
		if host != "bot.example" {
			t.Errorf("asked for %s", host)
		}
		if lookups++; lookups < 3 {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		}
		return []netip.Addr{netip.MustParseAddr("169.254.169.254")}, nil
	}})
	id := answered(t, hub, pushAsk("k", fields{"url": "http://bot.example:" + port + "/cb"}))
	hub.Advance(time.Hour)
	p := hub.Pushes(id)
	if len(p) != 3 || p[0].Status != 503 || p[1].Status != 503 || !errors.Is(p[2].Err, ErrPushRefused) {
		t.Fatalf("%d attempts: %+v", len(p), p)
	}
	if n.Load() != 2 || lookups != 3 {
		t.Fatalf("%d requests, %d lookups", n.Load(), lookups)
	}
}

// req: FH-08
func TestOneRefusedAddressAmongTheAnswersIsNotTried(t *testing.T) {
	for host, refused := range map[string]string{
		"metadata.example": "169.254.169.254", "mapped.example": "::ffff:10.0.0.1", "private.example": "192.168.0.1",
	} {
		hub := NewHub(t, Options{Start: start, Resolve: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr(refused)}, nil
		}})
		id := answered(t, hub, pushAsk("k", fields{"url": "https://" + host + "/"}))
		hub.Advance(time.Hour)
		hub.RequirePushes(t, id, 1)
		if err := hub.Pushes(id)[0].Err; !errors.Is(err, ErrPushRefused) {
			t.Fatalf("%s: %v", host, err)
		}
	}
}

// req: FH-08
func TestANameWithoutAddressIsTriedAgain(t *testing.T) {
	fails := errors.New("no such host")
	for name, resolve := range map[string]func(context.Context, string) ([]netip.Addr, error){
		"error": func(context.Context, string) ([]netip.Addr, error) { return nil, fails },
		"empty": func(context.Context, string) ([]netip.Addr, error) { return nil, nil },
	} {
		hub := NewHub(t, Options{Start: start, Resolve: resolve})
		id := answered(t, hub, pushAsk("k", nil))
		hub.Advance(time.Hour)
		hub.RequirePushes(t, id, 8)
		if err := hub.Pushes(id)[0].Err; !errors.Is(err, ErrPushNetwork) {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

// req: FH-07
func TestARedirectOverASocketIsNotFollowed(t *testing.T) {
	to, n := count(t, always(200), httptest.NewServer)
	from := httptest.NewServer(http.RedirectHandler(to.URL, http.StatusTemporaryRedirect))
	defer from.Close()
	hub := NewHub(t, Options{Start: start, AllowLoopbackCallbacks: true})
	id := answered(t, hub, pushAsk("k", fields{"url": from.URL + "/"}))
	hub.Advance(time.Hour)
	hub.RequirePushes(t, id, 1)
	if p := hub.Pushes(id)[0]; p.Status != http.StatusTemporaryRedirect || n.Load() != 0 {
		t.Fatalf("%d, %d followed", p.Status, n.Load())
	}
	hub.RequireDelivery(t, id, "")
}

// req: FH-07
func TestACertificateThatDoesNotHoldGetsNothing(t *testing.T) {
	server, n := count(t, always(200), func(h http.Handler) *httptest.Server {
		s := httptest.NewUnstartedServer(h)
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.StartTLS()
		return s
	})
	hub := NewHub(t, Options{Start: start, AllowLoopbackCallbacks: true})
	id := answered(t, hub, pushAsk("k", fields{"url": server.URL}))
	hub.Advance(time.Minute)
	p := hub.Pushes(id)
	if len(p) < 2 || !errors.Is(p[0].Err, ErrPushNetwork) || n.Load() != 0 {
		t.Fatalf("%d requests: %+v", n.Load(), p)
	}
}

// req: FH-08
func TestAProxyOfTheEnvironmentIsNotUsed(t *testing.T) {
	if NewHub(t).outbound(false).(*http.Transport).Proxy != nil {
		t.Fatal("a proxy would dial where the check is not")
	}
}

func TestARefusalNamesNoSecret(t *testing.T) {
	hub := NewHub(t)
	for _, url := range []string{"http://CANARY.example/", "https://CANARY@x.example/", "https://x.example/#CANARY", "CANARY"} {
		if err := hub.checkDestination(url); err == nil || strings.Contains(err.Error(), "CANARY") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

package ma2htest

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"syscall"
)

// refusedV4 are the IPv4 ranges that are not the public Internet.
var refusedV4 = prefixes(
	"0.0.0.0/8",        // unspecified, "this network"
	"10.0.0.0/8",       // private
	"100.64.0.0/10",    // carrier-grade NAT
	"127.0.0.0/8",      // loopback
	"168.63.129.16/32", // metadata of one cloud, on a public address
	"169.254.0.0/16",   // link-local, metadata of most clouds
	"172.16.0.0/12",    // private
	"192.0.0.0/24",     // protocol assignments
	"192.0.2.0/24",     // documentation
	"192.88.99.0/24",   // relays of 6to4
	"192.168.0.0/16",   // private
	"198.18.0.0/15",    // benchmarks
	"198.51.100.0/24",  // documentation
	"203.0.113.0/24",   // documentation
	"224.0.0.0/4",      // multicast
	"240.0.0.0/4",      // reserved, broadcast
)

// publicV6 is all of IPv6 that is assigned to the Internet; refusedV6 are the
// parts of it that lead elsewhere. ULA, link-local, site-local, multicast,
// loopback and the forms that embed IPv4 lie outside of the former.
var (
	publicV6  = netip.MustParsePrefix("2000::/3")
	refusedV6 = prefixes(
		"2001::/23",     // protocol assignments, Teredo
		"2001:db8::/32", // documentation
		"2002::/16",     // 6to4: embeds IPv4
		"3fff::/20",     // documentation
	)
	// nat64 embeds IPv4 in its last four bytes, and that is where it leads.
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
)

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

// public reports whether a Hub may send to the address (§9.4). No prefix
// contains an address with a zone.
func public(a netip.Addr) bool {
	a = a.Unmap()
	if nat64.Contains(a) {
		b := a.As16()
		a = netip.AddrFrom4([4]byte(b[12:]))
	}
	in := func(p netip.Prefix) bool { return p.Contains(a) }
	if a.Is4() {
		return !slices.ContainsFunc(refusedV4, in)
	}
	return publicV6.Contains(a) && !slices.ContainsFunc(refusedV6, in)
}

// admit decides about the address that a callback's host has at this moment.
// Plain http goes to loopback only.
func (h *Hub) admit(a netip.Addr, plain bool) error {
	loopback := h.opts.AllowLoopbackCallbacks && a.IsLoopback()
	if loopback || !plain && public(a) {
		return nil
	}
	return fmt.Errorf("%w: address %s", ErrPushRefused, a)
}

// checkDestination holds a callback URL to what no address can change: https,
// and neither user nor fragment (§9.4).
func (h *Hub) checkDestination(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Hostname() == "":
		return fmt.Errorf("%w: callback.url is not an absolute URL", ErrPushRefused)
	case u.Scheme != "https" && !(u.Scheme == "http" && h.opts.AllowLoopbackCallbacks):
		return fmt.Errorf("%w: callback.url is not https", ErrPushRefused)
	case u.User != nil:
		return fmt.Errorf("%w: callback.url holds a user", ErrPushRefused)
	case u.Fragment != "":
		return fmt.Errorf("%w: callback.url has a fragment", ErrPushRefused)
	}
	return nil
}

// outbound is a transport for one attempt: it uses no proxy and keeps no
// connection, so that every attempt is checked where it goes.
func (h *Hub) outbound(plain bool) http.RoundTripper {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			return h.dial(ctx, addr, plain)
		},
		TLSClientConfig:    &tls.Config{RootCAs: h.opts.CallbackRoots, MinVersion: tls.VersionTLS12},
		DisableKeepAlives:  true,
		DisableCompression: true,
	}
}

// dial resolves the host anew and asks about the very address that it is about
// to connect to, so that a name which points elsewhere by now is caught.
func (h *Hub) dial(ctx context.Context, addr string, plain bool) (net.Conn, error) {
	host, service, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return nil, err
	}
	found, err := h.resolveHost(ctx, host)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrPushRefused, err)
		}
		return h.admit(to.Addr(), plain)
	}}
	err = fmt.Errorf("no address for the callback's host")
	for _, a := range found {
		var conn net.Conn
		if conn, err = dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(a, uint16(port)).String()); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

func (h *Hub) resolveHost(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	if h.opts.Resolve != nil {
		return h.opts.Resolve(ctx, host)
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

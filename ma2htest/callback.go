package ma2htest

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/ma2h/ma2h-go/types"
)

// callbacks is where pushes go and what is attached to them. The Hub's mutex
// guards it.
type callbacks struct {
	served   map[string]http.Handler // by callback URL
	bindings []*binding
}

func (c *callbacks) init() { c.served = make(map[string]http.Handler) }

// binding says that an agent owns a destination, and what its references stand
// for there (§9.4).
type binding struct {
	agent  string
	scheme string
	host   string              // with port
	path   string              // that which begins with this; empty is all
	refs   map[string][]string // newest first
}

// ServeCallback has what is pushed to the URL, byte for byte as in the
// callback, go to handler in memory: without a socket, so also inside
// testing/synctest, and without the checks of an address. A nil handler ends
// that.
func (h *Hub) ServeCallback(url string, handler http.Handler) {
	h.lock()
	defer h.unlock()
	if handler == nil {
		delete(h.callbacks.served, url)
		return
	}
	h.callbacks.served[url] = handler
}

// RegisterCallback says that an agent owns a destination: a host, which means
// https and port 443 unless it has another, or a URL whose path begins those
// that match.
// refs holds the secret of each secret_ref and token_ref. Only there a push
// carries the credential that its callback names (§9.4): a bearer token, an
// API key, or for hmac a signature by that secret, unless SigningAlg is
// ed25519. Elsewhere it is signed by a key of the Hub and carries no credential.
//
// Another secret for the same reference and destination rotates it. It is an
// error if the destination is none or a reference or secret is empty.
func (h *Hub) RegisterCallback(agentID, destination string, refs map[string]string) error {
	b, err := parseBinding(destination)
	if err != nil {
		return err
	}
	for ref, secret := range refs {
		if ref == "" || strings.TrimSpace(secret) == "" {
			return errors.New("ma2htest: RegisterCallback: a reference or its secret is empty (§8.3)")
		}
	}
	b.agent = agentID
	h.lock()
	defer h.unlock()
	known := b
	for _, other := range h.callbacks.bindings {
		if other.agent == b.agent && other.scheme == b.scheme && other.host == b.host && other.path == b.path {
			known = other
		}
	}
	if known == b {
		h.callbacks.bindings = append(h.callbacks.bindings, b)
	}
	for ref, secret := range refs {
		if old := known.refs[ref]; len(old) == 0 || old[0] != secret {
			known.refs[ref] = append([]string{secret}, old...)
		}
	}
	return nil
}

func parseBinding(destination string) (*binding, error) {
	scheme, rest, isURL := strings.Cut(destination, "://")
	if !isURL {
		scheme, rest = "https", destination
	}
	u, err := url.Parse(scheme + "://" + rest)
	bad := err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || climbs(u)
	if bad || scheme != "https" && scheme != "http" || !isURL && u.Path != "" {
		return nil, fmt.Errorf("ma2htest: RegisterCallback: %s is not a host or the beginning of a URL (§9.4)", types.Quote(destination))
	}
	return &binding{
		scheme: scheme, host: hostPort(u), path: strings.TrimSuffix(u.EscapedPath(), "/"),
		refs: make(map[string][]string),
	}, nil
}

// hostPort writes out the port, so that a URL with its scheme's own port is
// the URL without.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	return strings.ToLower(u.Hostname()) + ":" + port
}

// climbs reports a path whose segments do not mean what a prefix of it says.
func climbs(u *url.URL) bool {
	for s := range strings.SplitSeq(u.Path, "/") {
		if s == "." || s == ".." {
			return true
		}
	}
	return strings.ContainsRune(u.Path, '\\')
}

func (b *binding) matches(agent string, u *url.URL) bool {
	if b.agent != agent || b.scheme != u.Scheme || climbs(u) {
		return false
	}
	if hostPort(u) != b.host {
		return false
	}
	path := u.EscapedPath()
	return b.path == "" || path == b.path || strings.HasPrefix(path, b.path+"/")
}

// credential is what goes into the header of a push beside the signature.
type credential struct {
	scheme types.AuthScheme
	secret string
}

func (c credential) attach(h http.Header) {
	switch c.scheme {
	case types.AuthBearer:
		h.Set("Authorization", "Bearer "+c.secret)
	case types.AuthAPIKey:
		h.Set("X-Api-Key", c.secret)
	}
}

// credentialFor returns what to attach to a push and, for hmac, what to sign it
// with. The lock is held.
func (h *Hub) credentialFor(o *obligation) (credential, []SigningKey) {
	u, err := url.Parse(o.url)
	if err != nil || o.auth == nil {
		return credential{}, nil
	}
	ref := o.auth.TokenRef
	if o.auth.Scheme == types.AuthHMAC {
		ref = o.auth.SecretRef
	}
	for _, b := range h.callbacks.bindings {
		secrets := b.refs[ref]
		if len(secrets) == 0 || !b.matches(o.agent(), u) {
			continue
		}
		if o.auth.Scheme != types.AuthHMAC {
			return credential{scheme: o.auth.Scheme, secret: secrets[0]}, nil
		}
		if h.opts.SigningAlg != types.AlgHMACSHA256 {
			return credential{}, nil
		}
		keys := make([]SigningKey, len(secrets))
		for i, s := range secrets {
			keys[i] = SigningKey{secret: s}
		}
		return credential{}, keys
	}
	return credential{}, nil
}

// wayTo is how a push gets to its URL, which checkDestination has passed. The
// lock is held.
func (h *Hub) wayTo(raw string) http.RoundTripper {
	if handler, ok := h.callbacks.served[raw]; ok {
		return memoryTransport{hub: h, to: handler, plain: h.opts.AllowLoopbackCallbacks}
	}
	return h.outbound(strings.HasPrefix(strings.ToLower(raw), "http:"))
}

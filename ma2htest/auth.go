package ma2htest

import (
	"net/http"
	"slices"
	"strings"

	"github.com/ma2h/ma2h-go/types"
)

// principal is whom a credential stands for: one agent, or the human account.
type principal struct {
	agent  string
	owner  bool
	scheme string // bearer or apikey
}

type credentials struct {
	bearer, apiKey map[string]principal // by secret
	tokens, keys   map[string]string    // by agent id
	owner          string
}

func (c *credentials) init() {
	c.bearer, c.apiKey = make(map[string]principal), make(map[string]principal)
	c.tokens, c.keys = make(map[string]string), make(map[string]string)
}

// Token returns the bearer token that is scoped to the agent id (§9.1), minted
// on the first call.
func (h *Hub) Token(agentID string) string {
	h.lock()
	defer h.unlock()
	if _, ok := h.creds.tokens[agentID]; !ok {
		s := h.ids.next("tok_")
		h.creds.tokens[agentID] = s
		h.creds.bearer[s] = principal{agent: agentID, scheme: "bearer"}
	}
	return h.creds.tokens[agentID]
}

// APIKey returns the key for the header X-Api-Key that is scoped to the agent
// id (§9.1), minted on the first call.
func (h *Hub) APIKey(agentID string) string {
	h.lock()
	defer h.unlock()
	if _, ok := h.creds.keys[agentID]; !ok {
		s := h.ids.next("key_")
		h.creds.keys[agentID] = s
		h.creds.apiKey[s] = principal{agent: agentID, scheme: "apikey"}
	}
	return h.creds.keys[agentID]
}

// OwnerToken returns the bearer token of the human account that owns every
// agent. It reads presence (§15.3) and nothing of an agent's.
func (h *Hub) OwnerToken() string {
	h.lock()
	defer h.unlock()
	if h.creds.owner == "" {
		h.creds.owner = h.ids.next("own_")
		h.creds.bearer[h.creds.owner] = principal{owner: true, scheme: "bearer"}
	}
	return h.creds.owner
}

// authenticate finds the principal of a request. Two credentials must agree.
// The lock is held.
func (h *Hub) authenticate(header http.Header) (principal, *Error) {
	refused := &Error{Status: http.StatusUnauthorized, Code: types.CodeUnauthenticated, Message: "no valid credential"}
	authorization, keys := header.Values("Authorization"), header.Values("X-Api-Key")
	var found []principal
	for _, v := range authorization {
		scheme, secret, _ := strings.Cut(v, " ")
		p, ok := h.creds.bearer[secret]
		if !ok || !strings.EqualFold(scheme, "bearer") {
			return principal{}, refused
		}
		found = append(found, p)
	}
	for _, v := range keys {
		p, ok := h.creds.apiKey[v]
		if !ok {
			return principal{}, refused
		}
		found = append(found, p)
	}
	if len(found) == 0 {
		return principal{}, refused
	}
	for _, p := range found {
		if p.agent != found[0].agent || p.owner != found[0].owner {
			return principal{}, refused
		}
		if offered := h.caps.AuthSchemes; len(offered) > 0 && !slices.Contains(offered, p.scheme) {
			return principal{}, refused
		}
	}
	return found[0], nil
}

package ma2htest

import (
	"net/http"

	"github.com/ma2h/ma2h-go"
)

// Config reaches the Hub in memory as the agent, with a token of its own. It
// works inside testing/synctest if the Hub was made in the bubble.
func (h *Hub) Config(agentID string) ma2h.Config {
	return h.config(agentID, h.MemoryURL(), &http.Client{Transport: h.Transport()})
}

// ConfigTLS reaches the Hub as the agent over TLS on loopback.
func (h *Hub) ConfigTLS(agentID string) ma2h.Config {
	return h.config(agentID, h.URL(), h.Client())
}

func (h *Hub) config(agentID, url string, client *http.Client) ma2h.Config {
	return ma2h.Config{
		HubURL:     url,
		Credential: ma2h.Bearer(h.Token(agentID)),
		Agent:      ma2h.Agent{ID: agentID, Runtime: ma2h.RuntimeOther},
		HTTPClient: client,
	}
}

package ma2h

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/ma2h/ma2h-go/internal/limits"
	"github.com/ma2h/ma2h-go/types"
)

// Presence reads whether an agent is listening. Only the human who owns the
// agent may know: any other credential reads types.Unknown (§15.3). A Hub
// without presence is ErrUnsupported.
func (c *Client) Presence(ctx context.Context, agentID string) (*types.Presence, error) {
	if err := c.made(); err != nil {
		return nil, err
	}
	if agentID == "" || len(agentID) > limits.MaxIDLen || agentID == "." || agentID == ".." {
		return nil, invalid("agent_id", "§15.3", "is not an agent id of 1 to %d bytes", limits.MaxIDLen)
	}
	caps, err := c.Capabilities(ctx)
	if err != nil {
		return nil, err
	}
	if !caps.OffersPresence() {
		return nil, unsupported("presence", "§15")
	}
	reply, err := c.do(ctx, opPresence, agentID, http.MethodGet, c.base+"/v1/agents/"+url.PathEscape(agentID)+"/presence", nil)
	if err != nil {
		return nil, err
	}
	var p types.Presence
	if err := readDocument(reply.Body, &p); err != nil {
		return nil, fmt.Errorf("%w: presence: %w", ErrProtocol, err)
	}
	if p.AgentID != agentID {
		return nil, fmt.Errorf("%w: asked for the presence of one agent and got another's (§15.3)", ErrProtocol)
	}
	return &p, nil
}

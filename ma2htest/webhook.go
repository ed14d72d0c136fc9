package ma2htest

import (
	"net/http"

	"github.com/ma2h/ma2h-go/types"
)

// RegisterDirectiveWebhook has every directive that is sent to the agent from
// now on pushed to the URL too, the bare directive with the signature header,
// signed anew at each attempt and with the tries of a Response (§8.7). That the
// agent owns the host is taken from the caller. An empty URL ends it.
//
// The mailbox keeps the directive until it is acknowledged, whatever the
// webhook answers. The error is an *Error: ErrInvalid for a URL that a Hub does
// not send to (§9.4), ErrNotFound if the Hub offers no webhooks.
func (h *Hub) RegisterDirectiveWebhook(agentID, url string) error {
	h.lock()
	defer h.unlock()
	if url == "" {
		delete(h.post.webhooks, agentID)
		return nil
	}
	if !h.offersInbound() || !h.caps.Inbound.WebhookSupported {
		return refuse(http.StatusNotFound, types.CodeNotFound, "the Hub offers no webhooks for directives (§8.0)")
	}
	if err := h.checkDestination(url); err != nil {
		return invalidField("%v", err)
	}
	h.post.webhooks[agentID] = url
	return nil
}

// pushDirective owes d to the webhook of its agent, if it has one. The lock is
// held.
func (h *Hub) pushDirective(d *directive) {
	url, ok := h.post.webhooks[d.agent]
	if !ok {
		return
	}
	h.begin(&obligation{
		kind: directiveKind, directive: d, url: url, body: d.body,
		context: directiveContext, delivered: d.got,
	})
}

// DirectivePushes returns the attempts to push a directive to its agent's
// webhook, in the order of their beginning.
func (h *Hub) DirectivePushes(id string) []Push { return h.attempts(id, directiveKind) }

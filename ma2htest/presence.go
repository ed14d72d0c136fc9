package ma2htest

import (
	"net/http"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

// touch notes that the agent of a long-poll or a drain is listening (§15.1). The lock is
// held.
func (h *Hub) touch(c *call, now time.Time) {
	if c.who.agent != "" {
		h.seen[c.who.agent] = now
	}
}

// presence tells the owner, and nobody else, when an agent was last listening
// (§15.3).
func (h *Hub) presence(c *call) reply {
	if h.minor < 4 || !h.caps.OffersPresence() {
		return notFound().reply()
	}
	fresh := h.caps.Presence.FreshnessSeconds
	if fresh <= 0 {
		fresh = defaultFreshness
	}
	p := types.Presence{AgentID: c.param, State: types.Unknown, FreshnessSeconds: fresh}
	now := h.lock()
	defer h.unlock()
	if last, ok := h.seen[c.param]; ok && c.who.owner {
		p.State, p.LastSeen = types.Offline, stamp(last)
		if now.Sub(last) <= time.Duration(fresh)*time.Second {
			p.State = types.Online
		}
	}
	return jsonReply(http.StatusOK, p)
}

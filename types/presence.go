package types

// PresenceState says whether an agent is listening (§15.2).
type PresenceState string

// The presence states.
const (
	Online  PresenceState = "online"
	Offline PresenceState = "offline"
	Unknown PresenceState = "unknown" // never seen, or not the caller's
)

// Presence is the body of GET /v1/agents/{agent_id}/presence (§15.3).
type Presence struct {
	AgentID          string        `json:"agent_id"`
	State            PresenceState `json:"state"`
	LastSeen         string        `json:"last_seen,omitzero"` // RFC 3339; absent when unknown
	FreshnessSeconds int64         `json:"freshness_seconds"`
}

// Validate returns a *FieldError for the first rule of §15 that p breaks.
func (p *Presence) Validate() error {
	var c checker
	c.id("§15.3", "agent_id", p.AgentID)
	switch p.State {
	case Online, Offline:
		c.timestamp("§15.3", "last_seen", p.LastSeen)
	case Unknown:
		if p.LastSeen != "" {
			c.fail("§15.2", "last_seen", "is there in state unknown")
		}
	default:
		c.fail("§15.2", "state", "is %s, not online, offline or unknown", Quote(string(p.State)))
	}
	if p.FreshnessSeconds < 1 {
		c.fail("§15.3", "freshness_seconds", "is %d, below 1", p.FreshnessSeconds)
	}
	return c.err
}

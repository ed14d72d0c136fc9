package types

import (
	"fmt"
	"log/slog"
)

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
	AgentID          string        `json:"agent_id"`           // whose it is
	State            PresenceState `json:"state"`              // online, offline or unknown
	LastSeen         string        `json:"last_seen,omitzero"` // RFC 3339; absent when unknown
	FreshnessSeconds int64         `json:"freshness_seconds"`  // after which it reads as offline
}

// UnmarshalJSON reads a Presence and refuses an empty last_seen.
func (p *Presence) UnmarshalJSON(b []byte) error {
	type plain Presence
	var w struct {
		plain
		LastSeen *string `json:"last_seen"`
	}
	if err := Decode(b, &w); err != nil {
		return err
	}
	var c checker
	w.plain.LastSeen = given(&c, "§15.3", "last_seen", w.LastSeen)
	*p = Presence(w.plain)
	return c.err
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
	c.count("§15.3", "freshness_seconds", p.FreshnessSeconds)
	return c.err
}

func (p Presence) summary() summary {
	return summarize("Presence", "agent_id", p.AgentID, "state", string(p.State))
}

// Format prints the agent and the state, not when it was seen (§15.3).
func (p Presence) Format(f fmt.State, _ rune) { p.summary().write(f) }

// LogValue logs what Format prints.
func (p Presence) LogValue() slog.Value { return p.summary().LogValue() }

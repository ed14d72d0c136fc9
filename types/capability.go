package types

// Capability is the document at /.well-known/ma2h (§8.0). Only Version is
// mandatory; a zero field means that the Hub did not say, and an absent
// Inbound, Ack or Presence that it does not offer the leg.
type Capability struct {
	Version             string      `json:"ma2h_version"`
	MaxBodyBytes        int64       `json:"max_body_bytes,omitzero"`
	MaxPartBytes        int64       `json:"max_part_bytes,omitzero"`
	MaxContextParts     *int64      `json:"max_context_parts,omitzero"` // zero is a limit
	AuthSchemes         []string    `json:"auth_schemes,omitempty"`
	CallbackAuthSchemes []string    `json:"callback_auth_schemes,omitempty"`
	SignatureAlgs       []string    `json:"signature_algs,omitempty"`
	RateLimit           *RateLimit  `json:"rate_limit,omitzero"`
	RetentionDays       int64       `json:"retention_days,omitzero"`
	ReplayWindowSeconds int64       `json:"replay_window_seconds,omitzero"`
	Inbound             *Inbound    `json:"inbound,omitzero"`
	Ack                 *AckOffer   `json:"ack,omitzero"`
	Presence            *PresenceIn `json:"presence,omitzero"`
}

// Signature algorithms (§9.2).
const (
	AlgHMACSHA256 = "hmac-sha256"
	AlgEd25519    = "ed25519"
)

// RateLimit are the published quotas of one agent id (§8.6).
type RateLimit struct {
	RequestsPerMinute int64 `json:"requests_per_minute,omitzero"`
	InboxDepth        int64 `json:"inbox_depth,omitzero"`
}

// Inbound advertises the agent's mailbox (§8.7).
type Inbound struct {
	Enabled                  bool     `json:"enabled"`
	PollURL                  string   `json:"poll_url,omitzero"`
	AckURL                   string   `json:"ack_url,omitzero"`
	MaxBatch                 int64    `json:"max_batch,omitzero"`
	VisibilityTimeoutSeconds int64    `json:"visibility_timeout_seconds,omitzero"`
	RetentionDays            int64    `json:"retention_days,omitzero"`
	SignatureAlgs            []string `json:"signature_algs,omitempty"`
	WebhookSupported         bool     `json:"webhook_supported,omitzero"`
}

// AckOffer advertises acknowledgments (§14).
type AckOffer struct {
	Enabled       bool     `json:"enabled"`
	SignatureAlgs []string `json:"signature_algs,omitempty"`
}

// PresenceIn advertises presence (§15).
type PresenceIn struct {
	Enabled          bool  `json:"enabled"`
	FreshnessSeconds int64 `json:"freshness_seconds,omitzero"`
}

// OffersInbound reports whether the Hub has mailboxes.
func (c *Capability) OffersInbound() bool { return c.Inbound != nil && c.Inbound.Enabled }

// OffersAck reports whether the Hub takes acknowledgments.
func (c *Capability) OffersAck() bool { return c.Ack != nil && c.Ack.Enabled }

// OffersPresence reports whether the Hub has presence.
func (c *Capability) OffersPresence() bool { return c.Presence != nil && c.Presence.Enabled }

type wireEnabled struct {
	Enabled *bool `json:"enabled"`
}

func needEnabled(field string, b []byte) error {
	var w wireEnabled
	if err := Decode(b, &w); err != nil {
		return err
	}
	if w.Enabled == nil {
		return &FieldError{Field: field + ".enabled", Problem: "is required", Section: "§8.0"}
	}
	return nil
}

// UnmarshalJSON reads an Inbound and refuses one without enabled.
func (i *Inbound) UnmarshalJSON(b []byte) error {
	type plain Inbound
	if err := needEnabled("inbound", b); err != nil {
		return err
	}
	return Decode(b, (*plain)(i))
}

// UnmarshalJSON reads an AckOffer and refuses one without enabled.
func (a *AckOffer) UnmarshalJSON(b []byte) error {
	type plain AckOffer
	if err := needEnabled("ack", b); err != nil {
		return err
	}
	return Decode(b, (*plain)(a))
}

// UnmarshalJSON reads a PresenceIn and refuses one without enabled.
func (p *PresenceIn) UnmarshalJSON(b []byte) error {
	type plain PresenceIn
	if err := needEnabled("presence", b); err != nil {
		return err
	}
	return Decode(b, (*plain)(p))
}

// Validate returns a *FieldError for the first rule of §8.0 that c breaks.
// Unknown strings in the lists are no fault.
func (c *Capability) Validate() error {
	var k checker
	k.version(c.Version, 0)
	atLeast := func(field string, n, least int64) {
		if n < least {
			k.fail("§8.0", field, "is %d, below %d", n, least)
		}
	}
	atLeast("max_body_bytes", c.MaxBodyBytes, 0)
	atLeast("max_part_bytes", c.MaxPartBytes, 0)
	if c.MaxContextParts != nil {
		atLeast("max_context_parts", *c.MaxContextParts, 0)
	}
	atLeast("retention_days", c.RetentionDays, 0)
	atLeast("replay_window_seconds", c.ReplayWindowSeconds, 0)
	if r := c.RateLimit; r != nil {
		atLeast("rate_limit.requests_per_minute", r.RequestsPerMinute, 0)
		atLeast("rate_limit.inbox_depth", r.InboxDepth, 0)
	}
	if i := c.Inbound; i != nil {
		atLeast("inbound.max_batch", i.MaxBatch, 0)
		atLeast("inbound.visibility_timeout_seconds", i.VisibilityTimeoutSeconds, 0)
		atLeast("inbound.retention_days", i.RetentionDays, 0)
		for field, u := range map[string]string{"inbound.poll_url": i.PollURL, "inbound.ack_url": i.AckURL} {
			if u != "" {
				k.uri("§8.0", field, u)
			}
		}
	}
	if p := c.Presence; p != nil {
		atLeast("presence.freshness_seconds", p.FreshnessSeconds, 0)
	}
	return k.err
}

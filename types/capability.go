package types

import (
	"fmt"
	"log/slog"
	"strconv"
)

// Capability is the document at /.well-known/ma2h (§8.0). Only Version is
// mandatory; a zero field means that the Hub did not say, and an absent
// Inbound, Ack or Presence that it does not offer the leg.
type Capability struct {
	Version             string      `json:"ma2h_version"`                    // ma2h_version
	MaxBodyBytes        int64       `json:"max_body_bytes,omitzero"`         // of Message.Body
	MaxPartBytes        int64       `json:"max_part_bytes,omitzero"`         // of one Part
	MaxContextParts     *int64      `json:"max_context_parts,omitzero"`      // zero is a limit
	AuthSchemes         []string    `json:"auth_schemes,omitempty"`          // that agents authenticate with
	CallbackAuthSchemes []string    `json:"callback_auth_schemes,omitempty"` // that callbacks may name
	SignatureAlgs       []string    `json:"signature_algs,omitempty"`        // that pushes are signed with
	RateLimit           *RateLimit  `json:"rate_limit,omitzero"`             // nil: none is published
	RetentionDays       int64       `json:"retention_days,omitzero"`         // of messages
	ReplayWindowSeconds int64       `json:"replay_window_seconds,omitzero"`  // of signatures
	Inbound             *Inbound    `json:"inbound,omitzero"`                // mailboxes
	Ack                 *AckOffer   `json:"ack,omitzero"`                    // acknowledgments
	Presence            *PresenceIn `json:"presence,omitzero"`               // presence
}

// Signature algorithms (§9.2).
const (
	AlgHMACSHA256 = "hmac-sha256"
	AlgEd25519    = "ed25519"
)

// RateLimit are the published quotas of one agent id (§8.6).
type RateLimit struct {
	RequestsPerMinute int64 `json:"requests_per_minute,omitzero"` // of one agent
	InboxDepth        int64 `json:"inbox_depth,omitzero"`         // open asks and tasks
}

// Inbound advertises the agent's mailbox (§8.7).
type Inbound struct {
	Enabled                  bool     `json:"enabled"`                             // false: no mailboxes
	PollURL                  string   `json:"poll_url,omitzero"`                   // drains
	AckURL                   string   `json:"ack_url,omitzero"`                    // acknowledges
	MaxBatch                 int64    `json:"max_batch,omitzero"`                  // entries a drain
	VisibilityTimeoutSeconds int64    `json:"visibility_timeout_seconds,omitzero"` // how long a drained entry is hidden
	RetentionDays            int64    `json:"retention_days,omitzero"`             // of entries that are not acknowledged
	SignatureAlgs            []string `json:"signature_algs,omitempty"`            // that deliveries are signed with
	WebhookSupported         bool     `json:"webhook_supported,omitzero"`          // pushes directives too
}

// AckOffer advertises acknowledgments (§14).
type AckOffer struct {
	Enabled       bool     `json:"enabled"`                  // false: no acknowledgments
	SignatureAlgs []string `json:"signature_algs,omitempty"` // that a pushed one is signed with
}

// PresenceIn advertises presence (§15).
type PresenceIn struct {
	Enabled          bool  `json:"enabled"`                    // false: no presence
	FreshnessSeconds int64 `json:"freshness_seconds,omitzero"` // after which an agent reads as offline
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

// UnmarshalJSON reads a Capability and refuses a zero where the least is one.
func (c *Capability) UnmarshalJSON(b []byte) error {
	type plain Capability
	var w struct {
		plain
		MaxBodyBytes        *int64 `json:"max_body_bytes"`
		MaxPartBytes        *int64 `json:"max_part_bytes"`
		RetentionDays       *int64 `json:"retention_days"`
		ReplayWindowSeconds *int64 `json:"replay_window_seconds"`
	}
	if err := Decode(b, &w); err != nil {
		return err
	}
	var ch checker
	w.plain.MaxBodyBytes = given(&ch, "§8.0", "max_body_bytes", w.MaxBodyBytes)
	w.plain.MaxPartBytes = given(&ch, "§8.0", "max_part_bytes", w.MaxPartBytes)
	w.plain.RetentionDays = given(&ch, "§8.0", "retention_days", w.RetentionDays)
	w.plain.ReplayWindowSeconds = given(&ch, "§8.0", "replay_window_seconds", w.ReplayWindowSeconds)
	*c = Capability(w.plain)
	return ch.err
}

// UnmarshalJSON reads an Inbound and refuses one without enabled, with an
// empty URL, or with a zero where the least is one.
func (i *Inbound) UnmarshalJSON(b []byte) error {
	type plain Inbound
	if err := needEnabled("inbound", b); err != nil {
		return err
	}
	var w struct {
		plain
		PollURL                  *string `json:"poll_url"`
		AckURL                   *string `json:"ack_url"`
		MaxBatch                 *int64  `json:"max_batch"`
		VisibilityTimeoutSeconds *int64  `json:"visibility_timeout_seconds"`
		RetentionDays            *int64  `json:"retention_days"`
	}
	if err := Decode(b, &w); err != nil {
		return err
	}
	var c checker
	w.plain.PollURL = given(&c, "§8.0", "inbound.poll_url", w.PollURL)
	w.plain.AckURL = given(&c, "§8.0", "inbound.ack_url", w.AckURL)
	w.plain.MaxBatch = given(&c, "§8.0", "inbound.max_batch", w.MaxBatch)
	w.plain.VisibilityTimeoutSeconds = given(&c, "§8.0", "inbound.visibility_timeout_seconds", w.VisibilityTimeoutSeconds)
	w.plain.RetentionDays = given(&c, "§8.0", "inbound.retention_days", w.RetentionDays)
	*i = Inbound(w.plain)
	return c.err
}

// UnmarshalJSON reads an AckOffer and refuses one without enabled.
func (a *AckOffer) UnmarshalJSON(b []byte) error {
	type plain AckOffer
	if err := needEnabled("ack", b); err != nil {
		return err
	}
	return Decode(b, (*plain)(a))
}

// UnmarshalJSON reads a PresenceIn and refuses one without enabled, or with a
// freshness_seconds of zero.
func (p *PresenceIn) UnmarshalJSON(b []byte) error {
	type plain PresenceIn
	if err := needEnabled("presence", b); err != nil {
		return err
	}
	var w struct {
		plain
		FreshnessSeconds *int64 `json:"freshness_seconds"`
	}
	if err := Decode(b, &w); err != nil {
		return err
	}
	var c checker
	w.plain.FreshnessSeconds = given(&c, "§8.0", "presence.freshness_seconds", w.FreshnessSeconds)
	*p = PresenceIn(w.plain)
	return c.err
}

// Validate returns a *FieldError for the first rule of §8.0 that c breaks.
// Strings in lists are not looked at: a later minor may add some (§10).
func (c *Capability) Validate() error {
	var ch checker
	ch.version(c.Version, 0)
	ch.count("§8.0", "max_body_bytes", c.MaxBodyBytes)
	ch.count("§8.0", "max_part_bytes", c.MaxPartBytes)
	if c.MaxContextParts != nil {
		ch.count("§8.0", "max_context_parts", *c.MaxContextParts)
	}
	ch.count("§8.0", "retention_days", c.RetentionDays)
	ch.count("§8.0", "replay_window_seconds", c.ReplayWindowSeconds)
	if r := c.RateLimit; r != nil {
		ch.count("§8.6", "rate_limit.requests_per_minute", r.RequestsPerMinute)
		ch.count("§8.6", "rate_limit.inbox_depth", r.InboxDepth)
	}
	if i := c.Inbound; i != nil {
		ch.under("inbound", i.validate())
	}
	if p := c.Presence; p != nil {
		ch.count("§8.0", "presence.freshness_seconds", p.FreshnessSeconds)
	}
	return ch.err
}

func (i *Inbound) validate() error {
	var c checker
	if i.PollURL != "" {
		c.uri("§8.0", "poll_url", i.PollURL)
	}
	if i.AckURL != "" {
		c.uri("§8.0", "ack_url", i.AckURL)
	}
	c.count("§8.0", "max_batch", i.MaxBatch)
	c.count("§8.0", "visibility_timeout_seconds", i.VisibilityTimeoutSeconds)
	c.count("§8.0", "retention_days", i.RetentionDays)
	return c.err
}

func (c Capability) summary() summary {
	return summarize("Capability", "version", c.Version,
		"inbound", strconv.FormatBool(c.OffersInbound()),
		"ack", strconv.FormatBool(c.OffersAck()),
		"presence", strconv.FormatBool(c.OffersPresence()))
}

// Format prints the version and the legs that are offered.
func (c Capability) Format(f fmt.State, _ rune) { c.summary().write(f) }

// LogValue logs what Format prints.
func (c Capability) LogValue() slog.Value { return c.summary().LogValue() }

func (i Inbound) summary() summary {
	return summarize("Inbound", "enabled", strconv.FormatBool(i.Enabled))
}

// Format prints whether it is enabled.
func (i Inbound) Format(f fmt.State, _ rune) { i.summary().write(f) }

// LogValue logs what Format prints.
func (i Inbound) LogValue() slog.Value { return i.summary().LogValue() }

func (a AckOffer) summary() summary {
	return summarize("AckOffer", "enabled", strconv.FormatBool(a.Enabled))
}

// Format prints whether it is enabled.
func (a AckOffer) Format(f fmt.State, _ rune) { a.summary().write(f) }

// LogValue logs what Format prints.
func (a AckOffer) LogValue() slog.Value { return a.summary().LogValue() }

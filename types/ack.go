package types

import (
	"fmt"
	"log/slog"
)

// Ack is the receipt that the Hub makes of an acknowledgment (§14.1).
type Ack struct {
	Version      string `json:"ma2h_version"`           // ma2h_version
	Type         string `json:"type"`                   // "ack"
	InReplyTo    string `json:"in_reply_to"`            // the message or directive
	By           string `json:"by"`                     // who acknowledged, as the Hub attests it
	AckedAt      string `json:"acked_at"`               // RFC 3339, the Hub's clock
	Note         string `json:"note,omitzero"`          // for the human; untrusted
	ResolutionID string `json:"resolution_id,omitzero"` // of a message's answer
}

// TypeAck is the type of an Ack.
const TypeAck = "ack"

// Validate returns a *FieldError for the first rule of §14.1 that a breaks.
func (a *Ack) Validate() error {
	var c checker
	c.version(a.Version, 4)
	if a.Type != TypeAck {
		c.fail("§14.1", "type", "is %s, not ack", Quote(a.Type))
	}
	c.id("§14.1", "in_reply_to", a.InReplyTo)
	c.principal("§14.1", "by", a.By)
	c.timestamp("§14.1", "acked_at", a.AckedAt)
	return c.err
}

// AckRequest is the body of POST /v1/messages/{id}/ack (§14.3).
type AckRequest struct {
	Note         string `json:"note,omitzero"`
	ResolutionID string `json:"resolution_id,omitzero"`
}

func (a Ack) summary() summary {
	return summarize("Ack", "in_reply_to", a.InReplyTo, "resolution_id", a.ResolutionID)
}

// Format prints the ids.
func (a Ack) Format(f fmt.State, _ rune) { a.summary().write(f) }

// LogValue logs what Format prints.
func (a Ack) LogValue() slog.Value { return a.summary().LogValue() }

// Format prints the resolution id.
func (a AckRequest) Format(f fmt.State, _ rune) {
	summarize("AckRequest", "resolution_id", a.ResolutionID).write(f)
}

// LogValue logs the resolution id.
func (a AckRequest) LogValue() slog.Value {
	return summarize("AckRequest", "resolution_id", a.ResolutionID).LogValue()
}

package types

import (
	"fmt"
	"log/slog"
	"strings"
)

// Resolution is how an ask or task ended (§6).
type Resolution string

// The resolutions.
const (
	Answered  Resolution = "answered"
	Declined  Resolution = "declined"
	Cancelled Resolution = "cancelled"
	Expired   Resolution = "expired"
	Completed Resolution = "completed"
	Dismissed Resolution = "dismissed"
)

// Known reports whether r is one of the six resolutions.
func (r Resolution) Known() bool { return r.Of(VerbAsk) || r.Of(VerbTask) }

// Of reports whether a message of verb v can end as r (§6).
func (r Resolution) Of(v Verb) bool {
	switch r {
	case Answered, Declined, Cancelled:
		return v == VerbAsk
	case Completed, Dismissed:
		return v == VerbTask
	case Expired:
		return v == VerbAsk || v == VerbTask
	}
	return false
}

// ActorDefaultOnExpire is the actor of a default that was applied on expiry,
// the bound sign that no human decided (§6, §9.2).
const ActorDefaultOnExpire = "system:default_on_expire"

// Response is what a Hub emits when an ask or task ends (§6).
type Response struct {
	Version      string          `json:"ma2h_version"`
	InReplyTo    string          `json:"in_reply_to"`
	ResolutionID string          `json:"resolution_id"`
	Agent        ResponseAgent   `json:"agent"` // routing only, never signed
	Resolution   Resolution      `json:"resolution"`
	Response     *ResponseDetail `json:"response,omitzero"`
	Defaulted    bool            `json:"defaulted,omitzero"` // never signed: see the actor
	State        Raw             `json:"state,omitzero"`
}

// ResponseAgent is the routing identity on the return leg (§6).
type ResponseAgent struct {
	ID    string `json:"id"`
	RunID string `json:"run_id"`
}

// Format prints the ids.
func (a ResponseAgent) Format(f fmt.State, _ rune) { a.summary().write(f) }

// LogValue logs the ids.
func (a ResponseAgent) LogValue() slog.Value { return a.summary().LogValue() }

func (a ResponseAgent) summary() summary {
	return summarize("ResponseAgent", "id", a.ID, "run_id", a.RunID)
}

// ResponseDetail is the decision itself (§6).
type ResponseDetail struct {
	Value      Raw             `json:"value,omitzero"` // string or object; asks only
	Edited     bool            `json:"edited,omitzero"`
	Actor      string          `json:"actor"`
	ResolvedAt string          `json:"resolved_at"`
	Comment    string          `json:"comment,omitzero"`
	Checklist  []ChecklistItem `json:"checklist,omitempty"` // tasks only
}

// AcceptsNull tells the strict decoder that a null response means an absent
// one (§9.2).
func (*ResponseDetail) AcceptsNull() {}

// Validate returns a *FieldError for the first rule of §6 that r breaks.
func (r *Response) Validate() error {
	var c checker
	c.version(r.Version, 0)
	c.id("§6", "in_reply_to", r.InReplyTo)
	c.id("§6", "resolution_id", r.ResolutionID)
	c.id("§6", "agent.id", r.Agent.ID)
	c.id("§6", "agent.run_id", r.Agent.RunID)
	if !r.Resolution.Known() {
		c.fail("§6", "resolution", "is %s, not a resolution of the protocol", Quote(string(r.Resolution)))
	}
	d := r.Response
	if d == nil && r.Resolution.Of(VerbAsk) && !r.Resolution.Of(VerbTask) {
		c.fail("§6", "response", "is required for an ask")
	}
	if d != nil {
		c.under("response", d.validate(r.Resolution))
	}
	if r.Defaulted && (r.Resolution != Expired || d == nil || d.Actor != ActorDefaultOnExpire) {
		c.fail("§6", "defaulted", "is true without resolution expired and actor %s", ActorDefaultOnExpire)
	}
	if !r.State.IsNull() {
		c.object("§6", "state", r.State)
	}
	return c.err
}

func (d *ResponseDetail) validate(res Resolution) error {
	var c checker
	c.principal("§9.1", "actor", d.Actor)
	c.timestamp("§6", "resolved_at", d.ResolvedAt)
	if d.Value != nil && !d.Value.IsString() && !d.Value.IsObject() {
		c.fail("§6", "value", "is not a string or an object")
	}
	hasValue := d.Value != nil
	switch res {
	case Answered:
		if !hasValue {
			c.fail("§6", "value", "is required when an ask is answered")
		}
	case Expired:
	default:
		if hasValue {
			c.fail("§6", "value", "does not go with resolution %s", res)
		}
	}
	if d.Checklist != nil && (res == Answered || res == Declined || res == Cancelled) {
		c.fail("§6", "checklist", "does not go with resolution %s", res)
	}
	return c.err
}

// ActorKind returns the part of the actor before the colon: human, agent or
// system.
func (d *ResponseDetail) ActorKind() string {
	kind, _, _ := strings.Cut(d.Actor, ":")
	return kind
}

func (r Response) summary() summary {
	return summarize("Response", "in_reply_to", r.InReplyTo, "resolution_id", r.ResolutionID, "resolution", string(r.Resolution))
}

// Format prints the ids and the resolution.
func (r Response) Format(f fmt.State, _ rune) { r.summary().write(f) }

// LogValue logs what Format prints.
func (r Response) LogValue() slog.Value { return r.summary().LogValue() }

func (d ResponseDetail) summary() summary { return summarize("ResponseDetail", "actor", d.ActorKind()) }

// Format prints the kind of actor.
func (d ResponseDetail) Format(f fmt.State, _ rune) { d.summary().write(f) }

// LogValue logs what Format prints.
func (d ResponseDetail) LogValue() slog.Value { return d.summary().LogValue() }

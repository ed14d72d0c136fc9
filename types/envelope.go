package types

import (
	"fmt"
	"log/slog"

	"github.com/ma2h/ma2h-go/internal/limits"
)

// Verb is the type of a message (§5).
type Verb string

// The three verbs.
const (
	VerbNotify Verb = "notify" // informs; no answer is expected
	VerbAsk    Verb = "ask"    // wants a decision
	VerbTask   Verb = "task"   // wants something done by hand
)

// Priority orders the human's inbox; absent means normal (§4).
type Priority string

// The priorities.
const (
	PriorityLow    Priority = "low"
	PriorityNormal Priority = "normal"
	PriorityHigh   Priority = "high"
	PriorityUrgent Priority = "urgent"
)

// Known reports whether p is one of the four priorities.
func (p Priority) Known() bool {
	switch p {
	case PriorityLow, PriorityNormal, PriorityHigh, PriorityUrgent:
		return true
	}
	return false
}

// Message is the envelope that an agent submits (§4).
type Message struct {
	Version        string   `json:"ma2h_version"`             // ma2h_version
	Type           Verb     `json:"type"`                     // notify, ask or task
	CreatedAt      string   `json:"created_at"`               // RFC 3339, agent clock, informational
	Agent          Agent    `json:"agent"`                    // who asks
	Title          string   `json:"title"`                    // 1 to 200 characters
	Body           string   `json:"body,omitzero"`            // Markdown; untrusted
	Priority       Priority `json:"priority,omitzero"`        // empty: normal
	Tags           []string `json:"tags,omitempty"`           // labels
	Context        []Part   `json:"context,omitempty"`        // attachments
	State          Raw      `json:"state,omitzero"`           // opaque object, returned verbatim (§9.3)
	ClientRef      string   `json:"client_ref,omitzero"`      // a label; never shown
	IdempotencyKey string   `json:"idempotency_key,omitzero"` // required for ask and task (§8.1)
	ExpiresAt      string   `json:"expires_at,omitzero"`      // RFC 3339
	Sensitive      bool     `json:"sensitive,omitzero"`       // keep out of telemetry (§9.6)
	Request        *Request `json:"request,omitzero"`         // ask only
	Action         *Action  `json:"action,omitzero"`          // task only
}

// UnmarshalJSON reads a Message and refuses an empty priority or expires_at.
func (m *Message) UnmarshalJSON(b []byte) error {
	type plain Message
	var w struct {
		plain
		Priority  *Priority `json:"priority"`
		ExpiresAt *string   `json:"expires_at"`
	}
	if err := Decode(b, &w); err != nil {
		return err
	}
	var c checker
	w.plain.Priority = given(&c, "§4", "priority", w.Priority)
	w.plain.ExpiresAt = given(&c, "§4", "expires_at", w.ExpiresAt)
	*m = Message(w.plain)
	return c.err
}

// Callback returns the callback of the request or action, or nil.
func (m *Message) Callback() *Callback {
	switch {
	case m.Request != nil:
		return m.Request.Callback
	case m.Action != nil:
		return m.Action.Callback
	}
	return nil
}

// Validate returns a *FieldError for the first rule of §4 and §5 that m breaks.
func (m *Message) Validate() error {
	var c checker
	c.version(m.Version, 0)
	switch m.Type {
	case VerbNotify, VerbAsk, VerbTask:
	default:
		c.fail("§4", "type", "is %s, not notify, ask or task", Quote(string(m.Type)))
	}
	c.timestamp("§4", "created_at", m.CreatedAt)
	c.under("agent", m.Agent.Validate())
	c.title("§4", m.Title)
	c.priority("§4", m.Priority)
	for i := range m.Context {
		c.under(index("context", i), m.Context[i].Validate())
	}
	if m.State != nil {
		c.object("§4", "state", m.State)
	}
	if len(m.IdempotencyKey) > limits.MaxKeyLen {
		c.fail("§8.1", "idempotency_key", "is %d bytes, over %d", len(m.IdempotencyKey), limits.MaxKeyLen)
	}
	if m.ExpiresAt != "" {
		c.timestamp("§4", "expires_at", m.ExpiresAt)
	}
	if (m.Request != nil) != (m.Type == VerbAsk) {
		c.fail("§4", "request", "belongs to an ask, which must have it")
	}
	if (m.Action != nil) != (m.Type == VerbTask) {
		c.fail("§4", "action", "belongs to a task, which must have it")
	}
	if m.Type != VerbNotify {
		c.require("§8.1", "idempotency_key", m.IdempotencyKey)
	}
	if m.Request != nil {
		c.under("request", m.Request.Validate())
	}
	if m.Action != nil {
		c.under("action", m.Action.Validate())
	}
	if v, err := ParseVersion(m.Version); err == nil && m.Callback().push() && !v.BindsPayload() {
		c.fail("§10", "ma2h_version", "is %s, below 0.3, which a push callback needs", Quote(m.Version))
	}
	return c.err
}

func (m Message) summary() summary {
	return summarize("Message", "type", string(m.Type), "version", m.Version, "agent", m.Agent.ID)
}

// Format prints the type, the version and the agent.
func (m Message) Format(f fmt.State, _ rune) { m.summary().write(f) }

// LogValue logs what Format prints.
func (m Message) LogValue() slog.Value { return m.summary().LogValue() }

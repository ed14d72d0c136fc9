package types

import (
	"fmt"
	"log/slog"
)

// Status is the lifecycle phase of a message (§7). A terminal ask or task has
// its resolution as status.
type Status string

// The statuses.
const (
	StatusOpen      Status = "open"
	StatusDelivered Status = "delivered" // a notify that was accepted
	StatusAnswered  Status = "answered"
	StatusDeclined  Status = "declined"
	StatusCancelled Status = "cancelled"
	StatusExpired   Status = "expired"
	StatusCompleted Status = "completed"
	StatusDismissed Status = "dismissed"
)

// Known reports whether s is a status of 0.2 to 0.4. An unknown one of a later
// minor is neither terminal nor a success (§10).
func (s Status) Known() bool {
	return s == StatusOpen || s == StatusDelivered || Resolution(s).Known()
}

// Terminal reports whether s is a known terminal status.
func (s Status) Terminal() bool { return s == StatusDelivered || Resolution(s).Known() }

// Of reports whether a message of verb v can have the status s (§7).
func (s Status) Of(v Verb) bool {
	switch s {
	case StatusOpen:
		return v == VerbAsk || v == VerbTask
	case StatusDelivered:
		return v == VerbNotify
	}
	return Resolution(s).Of(v)
}

// SubmitAck is the body of a 202 (§8.1).
type SubmitAck struct {
	ID        string `json:"id"`
	Status    Status `json:"status"`
	PollURL   string `json:"poll_url"`
	ReviewURL string `json:"review_url,omitzero"` // for a human's browser
}

// UnmarshalJSON reads a SubmitAck and refuses an empty review_url.
func (a *SubmitAck) UnmarshalJSON(b []byte) error {
	type plain SubmitAck
	var w struct {
		plain
		ReviewURL *string `json:"review_url"`
	}
	if err := Decode(b, &w); err != nil {
		return err
	}
	var c checker
	w.plain.ReviewURL = given(&c, "§8.1", "review_url", w.ReviewURL)
	*a = SubmitAck(w.plain)
	return c.err
}

// Validate returns a *FieldError for the first rule of §8.1 that a breaks.
func (a *SubmitAck) Validate() error {
	var c checker
	c.id("§8.1", "id", a.ID)
	if !a.Status.Known() {
		c.fail("§8.1", "status", "is %s, not a status of the protocol", Quote(string(a.Status)))
	}
	c.uri("§8.1", "poll_url", a.PollURL)
	if a.ReviewURL != "" {
		c.uri("§8.1", "review_url", a.ReviewURL)
	}
	return c.err
}

// MessageView is the body of GET /v1/messages/{id}: the message, its status,
// the Response once it is terminal, and the receipt track (§8.2).
type MessageView struct {
	Message
	ID       string    `json:"id"`                // the Hub's id
	Status   Status    `json:"status"`            // where it is now
	Response *Response `json:"response,omitzero"` // nil while open
	Delivery *Delivery `json:"delivery,omitzero"` // how far the answer has come; nil before it was read
}

// viewRest is what a MessageView has beside the members of the message.
type viewRest struct {
	ID       string    `json:"id"`
	Status   Status    `json:"status"`
	Response *Response `json:"response,omitzero"`
	Delivery *Delivery `json:"delivery,omitzero"`
}

// UnmarshalJSON reads the message and what stands beside its members.
func (v *MessageView) UnmarshalJSON(b []byte) error {
	var m Message
	var rest viewRest
	if err := Decode(b, &m); err != nil {
		return err
	}
	if err := Decode(b, &rest); err != nil {
		return err
	}
	*v = MessageView{m, rest.ID, rest.Status, rest.Response, rest.Delivery}
	return nil
}

// MarshalJSON writes the members of the message and the others as one object.
func (v MessageView) MarshalJSON() ([]byte, error) {
	type plain Message
	return Encode(struct {
		plain
		viewRest
	}{plain(v.Message), viewRest{v.ID, v.Status, v.Response, v.Delivery}})
}

// DeliveryState is how far an answer has come on its way to the agent (§14.2).
type DeliveryState string

// The delivery states of a Response.
const (
	DeliveredToAgent DeliveryState = "delivered-to-agent"
	Acknowledged     DeliveryState = "acknowledged"
)

// Delivery is the receipt track of an answer, orthogonal to the status (§14.2).
type Delivery struct {
	State          DeliveryState `json:"state"`                    // delivered-to-agent or acknowledged
	DeliveredAt    string        `json:"delivered_at,omitzero"`    // RFC 3339
	AcknowledgedAt string        `json:"acknowledged_at,omitzero"` // RFC 3339
	Ack            *Ack          `json:"ack,omitzero"`             // the acknowledgment that stands
}

// Validate returns a *FieldError for the first rule of §8.2 that v breaks,
// those of the message and of the Response included.
func (v *MessageView) Validate() error {
	var c checker
	c.err = v.Message.Validate()
	c.id("§8.2", "id", v.ID)
	switch {
	case !v.Status.Known():
		c.fail("§8.2", "status", "is %s, not a status of the protocol", Quote(string(v.Status)))
	case !v.Status.Of(v.Type):
		c.fail("§7", "status", "is %s, which a message of type %s cannot have", v.Status, Quote(string(v.Type)))
	}
	switch r := v.Response; {
	case r == nil && Resolution(v.Status).Known():
		c.fail("§8.2", "response", "is missing from a message of status %s", v.Status)
	case r != nil && !Resolution(v.Status).Known():
		c.fail("§8.2", "response", "is there at status %s", v.Status)
	case r != nil:
		c.under("response", r.Validate())
		if r.InReplyTo != v.ID {
			c.fail("§8.2", "response.in_reply_to", "is not the id of the message")
		}
		if string(r.Resolution) != string(v.Status) {
			c.fail("§8.2", "response.resolution", "is %s at status %s", r.Resolution, v.Status)
		}
		if v.Type == VerbAsk && r.Response == nil {
			c.fail("§6", "response.response", "is required for an ask")
		}
		if v.Type == VerbTask && r.Response != nil && r.Response.Value != nil {
			c.fail("§6", "response.response.value", "does not go with a task")
		}
	}
	if d := v.Delivery; d != nil {
		c.under("delivery", d.Validate())
		if v.Response == nil {
			c.fail("§14.2", "delivery", "is there at status %s", v.Status)
		}
	}
	return c.err
}

// UnmarshalJSON reads a Delivery and refuses an empty time.
func (d *Delivery) UnmarshalJSON(b []byte) error {
	type plain Delivery
	var w struct {
		plain
		DeliveredAt    *string `json:"delivered_at"`
		AcknowledgedAt *string `json:"acknowledged_at"`
	}
	if err := Decode(b, &w); err != nil {
		return err
	}
	var c checker
	w.plain.DeliveredAt = given(&c, "§14.2", "delivery.delivered_at", w.DeliveredAt)
	w.plain.AcknowledgedAt = given(&c, "§14.2", "delivery.acknowledged_at", w.AcknowledgedAt)
	*d = Delivery(w.plain)
	return c.err
}

// Validate returns a *FieldError for the first rule of §14.2 that d breaks.
func (d *Delivery) Validate() error {
	var c checker
	switch d.State {
	case DeliveredToAgent:
		if d.Ack != nil || d.AcknowledgedAt != "" {
			c.fail("§14.2", "state", "is delivered-to-agent with an ack")
		}
	case Acknowledged:
		if d.Ack == nil {
			c.fail("§14.2", "ack", "is required in state acknowledged")
		}
		c.timestamp("§14.2", "acknowledged_at", d.AcknowledgedAt)
	default:
		c.fail("§14.2", "state", "is %s, not delivered-to-agent or acknowledged", Quote(string(d.State)))
	}
	if d.DeliveredAt != "" {
		c.timestamp("§14.2", "delivered_at", d.DeliveredAt)
	}
	if d.Ack != nil {
		c.under("ack", d.Ack.Validate())
	}
	return c.err
}

// CancelResult is the body of a cancel: 200, or the 409 of a message that had
// ended otherwise (§8.4).
type CancelResult struct {
	ID         string     `json:"id"`
	Status     Status     `json:"status"`
	Resolution Resolution `json:"resolution,omitzero"`
}

func (a SubmitAck) summary() summary {
	return summarize("SubmitAck", "id", a.ID, "status", string(a.Status))
}

// Format prints the id and the status.
func (a SubmitAck) Format(f fmt.State, _ rune) { a.summary().write(f) }

// LogValue logs what Format prints.
func (a SubmitAck) LogValue() slog.Value { return a.summary().LogValue() }

func (d Delivery) summary() summary { return summarize("Delivery", "state", string(d.State)) }

// Format prints the state.
func (d Delivery) Format(f fmt.State, _ rune) { d.summary().write(f) }

// LogValue logs what Format prints.
func (d Delivery) LogValue() slog.Value { return d.summary().LogValue() }

func (r CancelResult) summary() summary {
	return summarize("CancelResult", "id", r.ID, "status", string(r.Status), "resolution", string(r.Resolution))
}

// Format prints the id, the status and the resolution.
func (r CancelResult) Format(f fmt.State, _ rune) { r.summary().write(f) }

// LogValue logs what Format prints.
func (r CancelResult) LogValue() slog.Value { return r.summary().LogValue() }

func (v MessageView) summary() summary {
	return summarize("MessageView", "id", v.ID, "type", string(v.Type), "status", string(v.Status))
}

// Format prints the id, the type and the status.
func (v MessageView) Format(f fmt.State, _ rune) { v.summary().write(f) }

// LogValue logs what Format prints.
func (v MessageView) LogValue() slog.Value { return v.summary().LogValue() }

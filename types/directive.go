package types

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
)

// TypeDirective is the type of a Directive.
const TypeDirective = "directive"

// Directive is what a human sends an agent, as it is delivered (§13.1).
type Directive struct {
	Version   string   `json:"ma2h_version"`
	Type      string   `json:"type"` // "directive"
	ID        string   `json:"id"`
	From      string   `json:"from"` // human:<id> or system:<id>, Hub-attested
	To        string   `json:"to"`   // agent:<id>
	CreatedAt string   `json:"created_at"`
	Title     string   `json:"title"` // 1 to 200 characters
	Body      string   `json:"body,omitzero"`
	Priority  Priority `json:"priority,omitzero"`
	Tags      []string `json:"tags,omitempty"`
	Context   []Part   `json:"context,omitempty"`
	ExpiresAt string   `json:"expires_at,omitzero"` // never signed
	Sensitive bool     `json:"sensitive,omitzero"`  // never signed
}

// UnmarshalJSON reads a Directive and refuses one that carries request, action
// or state: they are outside the signature and belong to other legs (§13.1). An
// empty priority or expires_at is refused too.
func (d *Directive) UnmarshalJSON(b []byte) error {
	type plain Directive
	var w struct {
		plain
		Priority  *Priority `json:"priority"`
		ExpiresAt *string   `json:"expires_at"`
		Request   Raw       `json:"request"`
		Action    Raw       `json:"action"`
		State     Raw       `json:"state"`
	}
	if err := Decode(b, &w); err != nil {
		return err
	}
	var c checker
	c.absent("request", w.Request)
	c.absent("action", w.Action)
	c.absent("state", w.State)
	w.plain.Priority = given(&c, "§13.1", "priority", w.Priority)
	w.plain.ExpiresAt = given(&c, "§13.1", "expires_at", w.ExpiresAt)
	*d = Directive(w.plain)
	return c.err
}

func (c *checker) absent(field string, r Raw) {
	if r != nil {
		c.fail("§13.1", field, "does not belong in a directive")
	}
}

// Validate returns a *FieldError for the first rule of §13.1 that d breaks.
func (d *Directive) Validate() error {
	var c checker
	c.version(d.Version, 4)
	if d.Type != TypeDirective {
		c.fail("§13.1", "type", "is %s, not directive", Quote(d.Type))
	}
	c.id("§13.1", "id", d.ID)
	if kind, _, _ := strings.Cut(d.From, ":"); !ValidPrincipal(d.From) || kind == "agent" {
		c.fail("§13.1", "from", "is not human: or system: and an id")
	}
	if kind, _, _ := strings.Cut(d.To, ":"); !ValidPrincipal(d.To) || kind != "agent" {
		c.fail("§13.1", "to", "is not agent: and an id")
	}
	c.timestamp("§13.1", "created_at", d.CreatedAt)
	c.title("§13.1", d.Title)
	c.priority("§13.1", d.Priority)
	for i := range d.Context {
		c.under(index("context", i), d.Context[i].Validate())
	}
	if d.ExpiresAt != "" {
		c.timestamp("§13.1", "expires_at", d.ExpiresAt)
	}
	return c.err
}

// InboxEntry is one row of a drain: a delivery and its detached signature, kept
// as received (§8.7). Exactly one of the kinds is set.
type InboxEntry struct {
	Directive Raw
	// Kind is the member's name; of a later minor it may be one that this
	// library does not know, and then Directive is nil.
	Kind      string
	Signature string
}

// EntryDirective is the kind of an InboxEntry that holds a directive.
const EntryDirective = "directive"

// UnmarshalJSON reads a row and refuses one with no kind, with two, or without
// a signature, and names what it saw.
func (e *InboxEntry) UnmarshalJSON(b []byte) error {
	var w map[string]Raw
	if err := Decode(b, &w); err != nil {
		return err
	}
	var out InboxEntry
	n := 0
	for name, r := range w {
		switch {
		case name == "signature":
			if err := Decode(r, &out.Signature); err != nil {
				return &FieldError{Field: "messages[].signature", Problem: "is not a string", Section: "§8.7"}
			}
		case r.IsObject():
			n++
			out.Kind = name
			if name == EntryDirective {
				out.Directive = r
			}
		case name == EntryDirective:
			return &FieldError{Field: "messages[].directive", Problem: "is not a JSON object", Section: "§8.7"}
		}
	}
	if n != 1 || out.Signature == "" {
		return &FieldError{Field: "messages[]", Problem: "has " + strconv.Itoa(n) + " kinds of entry and needs one, with a signature", Section: "§8.7"}
	}
	*e = out
	return nil
}

// MarshalJSON writes the row.
func (e InboxEntry) MarshalJSON() ([]byte, error) {
	return Encode(map[string]any{e.Kind: e.Directive, "signature": e.Signature})
}

// InboxBatch is the body of a drain (§8.7).
type InboxBatch struct {
	Messages []InboxEntry `json:"messages"`
}

// InboxAckRequest is the body of POST /v1/inbox/ack (§8.7, §14.3).
type InboxAckRequest struct {
	IDs  []string `json:"ids"`
	Note string   `json:"note,omitzero"`
}

// InboxAckResult is the answer to it. Acked is informational.
type InboxAckResult struct {
	Acked int64 `json:"acked"`
}

// Format prints how many rows there are.
func (b InboxBatch) Format(f fmt.State, _ rune) { b.summary().write(f) }

// LogValue logs what Format prints.
func (b InboxBatch) LogValue() slog.Value { return b.summary().LogValue() }

func (b InboxBatch) summary() summary {
	return summarize("InboxBatch", "messages", strconv.Itoa(len(b.Messages)))
}

func (d Directive) summary() summary {
	return summarize("Directive", "id", d.ID)
}

// Format prints the id.
func (d Directive) Format(f fmt.State, _ rune) { d.summary().write(f) }

// LogValue logs what Format prints.
func (d Directive) LogValue() slog.Value { return d.summary().LogValue() }

// Format prints the kind.
func (e InboxEntry) Format(f fmt.State, _ rune) { summarize("InboxEntry", "kind", e.Kind).write(f) }

// LogValue logs the kind.
func (e InboxEntry) LogValue() slog.Value {
	return summarize("InboxEntry", "kind", e.Kind).LogValue()
}

// Format prints how many ids there are.
func (r InboxAckRequest) Format(f fmt.State, _ rune) {
	summarize("InboxAckRequest", "ids", strconv.Itoa(len(r.IDs))).write(f)
}

// LogValue logs how many ids there are.
func (r InboxAckRequest) LogValue() slog.Value {
	return summarize("InboxAckRequest", "ids", strconv.Itoa(len(r.IDs))).LogValue()
}

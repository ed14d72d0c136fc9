package types

import (
	"fmt"
	"log/slog"
	"strconv"
)

// Mode says what shape an ask's answer has (§5.2).
type Mode string

// The modes.
const (
	ModeSelect  Mode = "select"  // one of Options
	ModeInput   Mode = "input"   // an object by Schema
	ModeConfirm Mode = "confirm" // approve or deny, or the two Options
)

// Values of a confirm whose options the Hub synthesizes (§5.2).
const (
	ValueApprove = "approve"
	ValueDeny    = "deny"
)

// Request is the question of an ask (§5.2).
type Request struct {
	Mode             Mode         `json:"mode"`
	Options          []Option     `json:"options,omitzero"`
	Schema           Raw          `json:"schema,omitzero"` // flat JSON Schema, Mode input
	Permissions      *Permissions `json:"permissions,omitzero"`
	DefaultOnExpire  Raw          `json:"default_on_expire,omitzero"` // string, object or null
	AllowedResolvers []string     `json:"allowed_resolvers,omitempty"`
	Callback         *Callback    `json:"callback,omitzero"`
}

// Option is one answer of a select or confirm.
type Option struct {
	Value       string `json:"value"`                // what comes back; no two the same
	Label       string `json:"label"`                // what the human reads
	Description string `json:"description,omitzero"` // more of it
}

type wireOption struct {
	Value       *string `json:"value"`
	Label       *string `json:"label"`
	Description string  `json:"description"`
}

// UnmarshalJSON reads an Option and refuses one without value or label.
func (o *Option) UnmarshalJSON(b []byte) error {
	var w wireOption
	if err := Decode(b, &w); err != nil {
		return err
	}
	if w.Value == nil || w.Label == nil {
		return &FieldError{Field: "options[]", Problem: "lacks value or label", Section: "§5.2"}
	}
	*o = Option{Value: *w.Value, Label: *w.Label, Description: w.Description}
	return nil
}

// Permissions are the affordances that the human is offered; an absent one is
// true (§5.2). AllowRespond false removes answering, AllowIgnore false removes
// declining.
type Permissions struct {
	AllowAccept  *bool `json:"allow_accept,omitzero"`  // take what is proposed
	AllowEdit    *bool `json:"allow_edit,omitzero"`    // change what is proposed
	AllowRespond *bool `json:"allow_respond,omitzero"` // answer
	AllowIgnore  *bool `json:"allow_ignore,omitzero"`  // decline
}

// Choices returns the values that an answer may take: those of Options, or
// approve and deny for a confirm without them, or nil for an input.
func (r *Request) Choices() []string {
	if r.Mode == ModeConfirm && len(r.Options) == 0 {
		return []string{ValueApprove, ValueDeny}
	}
	var out []string
	for _, o := range r.Options {
		out = append(out, o.Value)
	}
	return out
}

// Validate returns a *FieldError for the first rule of §5.2 that r breaks. It
// does not look into Schema; schema.CompileInput does.
func (r *Request) Validate() error {
	var c checker
	switch r.Mode {
	case ModeSelect:
		if len(r.Options) == 0 {
			c.fail("§5.2", "options", "needs at least one option in mode select")
		}
	case ModeConfirm:
		if r.Options != nil && len(r.Options) != 2 {
			c.fail("§5.2", "options", "has %d options, mode confirm takes two or none", len(r.Options))
		}
	case ModeInput:
		if r.Schema == nil {
			c.fail("§5.2", "schema", "is required in mode input")
		}
	default:
		c.fail("§5.2", "mode", "is %s, not select, input or confirm", Quote(string(r.Mode)))
	}
	seen := make(map[string]bool, len(r.Options))
	for i, o := range r.Options {
		if seen[o.Value] {
			c.fail("§5.2", index("options", i)+".value", "repeats an earlier option's")
		}
		seen[o.Value] = true
	}
	if r.Schema != nil {
		c.object("§5.2", "schema", r.Schema)
	}
	if d := r.DefaultOnExpire; d != nil && !d.IsNull() && !d.IsString() && !d.IsObject() {
		c.fail("§5.2", "default_on_expire", "is not a string, an object or null")
	}
	c.resolvers(r.AllowedResolvers)
	if r.Callback != nil {
		c.under("callback", r.Callback.Validate())
	}
	return c.err
}

func (c *checker) resolvers(list []string) {
	for i, p := range list {
		c.principal("§9.1", index("allowed_resolvers", i), p)
	}
}

func (r Request) summary() summary {
	return summarize("Request", "mode", string(r.Mode), "options", strconv.Itoa(len(r.Options)))
}

// Format prints the mode and the number of options.
func (r Request) Format(f fmt.State, _ rune) { r.summary().write(f) }

// LogValue logs what Format prints.
func (r Request) LogValue() slog.Value { return r.summary().LogValue() }

// Format prints the type alone.
func (o Option) Format(f fmt.State, _ rune) { summarize("Option").write(f) }

// LogValue logs the type alone.
func (o Option) LogValue() slog.Value { return summarize("Option").LogValue() }

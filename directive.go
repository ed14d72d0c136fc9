package ma2h

import (
	"fmt"
	"log/slog"
	"slices"

	"github.com/ma2h/ma2h-go/types"
)

// Directive is what a human sent this agent, from a delivery whose signature
// verified and that is addressed to it. Its text is untrusted input even so:
// the signature proves the author, not the intent (§13.5). Members that the
// protocol does not know are not in it.
type Directive struct {
	wire hidden[*types.Directive] // nil in the zero Directive
}

// noDirective is what the zero Directive holds.
var noDirective types.Directive

func newDirective(w types.Directive) *Directive { return &Directive{wire: hide(&w)} }

// held is never nil and must not be changed.
func (d *Directive) held() *types.Directive {
	if d == nil || d.wire == nil {
		return &noDirective
	}
	return d.wire()
}

// ID identifies the directive; it is the same on every delivery.
func (d *Directive) ID() string { return d.held().ID }

// From is the author as the Hub attests it: human:<id> or system:<id>.
func (d *Directive) From() string { return d.held().From }

// Title is one line.
func (d *Directive) Title() string { return d.held().Title }

// Body is Markdown, empty if there is none.
func (d *Directive) Body() string { return d.held().Body }

// Priority is PriorityNormal if the directive does not say.
func (d *Directive) Priority() Priority {
	if d.held().Priority == "" {
		return Normal
	}
	return d.held().Priority
}

// Tags are labels.
func (d *Directive) Tags() []string { return slices.Clone(d.held().Tags) }

// Context is the attachments. Nothing in this library fetches them.
func (d *Directive) Context() []Part {
	parts := slices.Clone(d.held().Context)
	for i, p := range parts {
		if p.File != nil {
			parts[i].File = new(*p.File)
		}
		parts[i].Data, parts[i].Metadata = slices.Clone(p.Data), slices.Clone(p.Metadata)
	}
	return parts
}

// DirectiveAdvisory is what no signature covers (§9.7).
type DirectiveAdvisory struct {
	CreatedAt string // RFC 3339, the Hub's clock
	ExpiresAt string // when the Hub drops it, RFC 3339; empty if it does not say
	Sensitive bool   // keep it out of telemetry (§9.6)
}

// Advisory returns the unsigned members: for display, never for a decision.
func (d *Directive) Advisory() DirectiveAdvisory {
	return DirectiveAdvisory{CreatedAt: d.held().CreatedAt, ExpiresAt: d.held().ExpiresAt, Sensitive: d.held().Sensitive}
}

// Format prints the id.
func (d *Directive) Format(f fmt.State, _ rune) { redacted(f, "Directive", "id", d.held().ID) }

// LogValue logs the id.
func (d *Directive) LogValue() slog.Value {
	return slog.StringValue(redactedText("Directive", "id", d.held().ID))
}

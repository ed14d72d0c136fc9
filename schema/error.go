package schema

import (
	"strings"

	"github.com/ma2h/ma2h-go/internal/limits"
	"github.com/ma2h/ma2h-go/types"
)

// Rules of an Error that are not keywords of JSON Schema.
const (
	RuleUnknownVersion = "unknown version"
	RuleUnknownName    = "unknown body"
	RuleJSON           = "strict JSON" // Unwrap has the reason
	RuleForbidden      = "must be absent"
	RuleUnsupported    = "unsupported keyword"
	RuleSize           = "size"
)

// Error says which rule a body, a schema or an answer breaks, and where. It
// holds no content: Path has names of the schema only, Rule is a keyword or
// one of the Rule constants.
type Error struct {
	Version string // of the schema; empty for a caller's
	Name    string // of the body, or "input schema", or "answer"
	Path    string // such as "request.options[].label"; empty for the whole
	Rule    string
	cause   error
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("ma2h: ")
	if e.Name == inputSchema {
		b.WriteString(e.Name)
	} else {
		b.WriteString(types.Quote(e.Name))
	}
	if e.Version != "" {
		b.WriteString(" of " + types.Quote(e.Version))
	}
	b.WriteString(": ")
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	b.WriteString(e.Rule)
	if e.cause != nil {
		b.WriteString(": " + unprefixed(e.cause))
	}
	return b.String()
}

// unprefixed is the text of an error that goes into another.
func unprefixed(err error) string { return strings.TrimPrefix(err.Error(), "ma2h: ") }

// Unwrap returns the *types.DecodeError of a text that is not strict JSON.
func (e *Error) Unwrap() error { return e.cause }

// place finds where a refusal of the validator happened. Its text quotes the
// instance, so nothing of it is passed on but the pointers into the schema
// that its layers add and the keyword at the innermost one.
func place(err error) (path, rule string) {
	var at []string
	prev := ""
	for {
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			break
		}
		inner := u.Unwrap()
		if inner == nil {
			break
		}
		layer := strings.TrimSuffix(err.Error(), inner.Error())
		layer = strings.TrimSuffix(strings.TrimPrefix(layer, "validating "), ": ")
		step := strings.TrimPrefix(layer, prev)
		if layer == "root" {
			layer, step = "", ""
		}
		at = appendStep(at, step)
		prev, err = layer, inner
	}
	leaf := err.Error()
	keyword, detail, _ := strings.Cut(leaf, ":")
	switch keyword {
	case "type", "enum", "const", "pattern", "minLength", "maxLength", "minItems", "maxItems",
		"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum":
		rule = keyword
	case "required":
		rule = keyword
		at = append(at, firstQuoted(detail))
	case "not":
		rule = RuleForbidden
	default:
		rule = "schema"
		if strings.HasPrefix(leaf, "unexpected additional properties") {
			rule = "additionalProperties"
		}
	}
	return joinPath(at), rule
}

// appendStep adds what one layer of the schema says about the instance. A
// jump to $defs, or into a combination, stays at the same value.
func appendStep(at []string, step string) []string {
	switch {
	case strings.HasPrefix(step, "/properties/"):
		name := strings.TrimPrefix(step, "/properties/")
		return append(at, strings.NewReplacer("~1", "/", "~0", "~").Replace(name))
	case step == "/items":
		return append(at, "[]")
	case step == "/additionalProperties":
		return append(at, "*")
	}
	return at
}

func firstQuoted(s string) string {
	_, s, _ = strings.Cut(s, `"`)
	s, _, _ = strings.Cut(s, `"`)
	return s
}

func joinPath(at []string) string {
	var b strings.Builder
	for _, name := range at {
		switch {
		case strings.HasPrefix(name, "["):
		case b.Len() > 0:
			b.WriteByte('.')
			fallthrough
		default:
			name = plainName(name)
		}
		b.WriteString(name)
	}
	return b.String()
}

// plainName returns name, or a star where it could be text of a person.
func plainName(name string) string {
	if name == "" || len(name) > limits.MaxQuoted {
		return "*"
	}
	for _, c := range []byte(name) {
		if c != '_' && c != '-' && c != '$' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return "*"
		}
	}
	return name
}

// Package types holds the wire types of MA2H 0.2 to 0.4, one file a leg.
//
// They carry data and nothing else: encoding, and Validate, which names the
// field, the bound and the section of the first thing that is wrong. A value
// of these types is not trusted for having been decoded: what an agent may act
// on is a *ma2h.Response or a *ma2h.Directive.
//
// Timestamps stay the strings that were received, because signatures bind them
// as text (§9.2). Unknown members are ignored (§10). Every type that can hold
// text of a person, a credential or state prints as a short summary without
// it, under every fmt verb and in log/slog.
package types

import (
	"errors"

	"github.com/go-json-experiment/json"

	"github.com/ma2h/ma2h-go/internal/strict"
)

// Decode reads one JSON value into v by the strict rules of this library:
// valid UTF-8, no duplicate names at any depth, exact-case names, no lone
// surrogates, at most 64 levels, numbers inside the finite doubles, nothing
// after the value. Unknown members are ignored (§10). It does not Validate.
func Decode(data []byte, v any) error {
	err := strict.Decode(data, v)
	if err == nil {
		return nil
	}
	return &DecodeError{cause: err}
}

// Encode writes v as compact JSON. Members keep the order of the type, map
// keys are sorted, so equal values give equal bytes.
func Encode(v any) ([]byte, error) {
	return json.Marshal(v, json.Deterministic(true))
}

// DecodeError says that a text is not the JSON that was expected, and where.
// It quotes nothing of the text.
type DecodeError struct{ cause error }

func (e *DecodeError) Error() string {
	if fe, ok := errors.AsType[*FieldError](e.cause); ok {
		return fe.Error()
	}
	return "ma2h: malformed JSON: " + e.cause.Error()
}

// Unwrap returns the reason, a *FieldError where a member was wrong.
func (e *DecodeError) Unwrap() error { return e.cause }

// Wire lets the strict decoder pass on the reason of a nested value unchanged.
func (e *DecodeError) Wire() error { return e.cause }

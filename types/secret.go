package types

import (
	"fmt"
	"log/slog"

	"github.com/go-json-experiment/json"
)

// SecretRef stands in a value, in data or in state for a secret that is kept
// elsewhere, so that the secret itself does not go through an agent (§9.6).
// Nothing in this library looks behind Ref: what it means, and whether to
// follow one that a human or another agent chose, is the caller's decision.
type SecretRef struct {
	Ref string `json:"secret_ref"`
}

// UnmarshalJSON reads a reference and refuses, with a *FieldError, an object
// that has any other member beside it, or an empty one.
func (s *SecretRef) UnmarshalJSON(b []byte) error {
	type plain SecretRef
	var w plain
	if err := json.Unmarshal(b, &w, json.RejectUnknownMembers(true)); err != nil || w.Ref == "" {
		return &FieldError{Field: "secret_ref", Problem: "is not the only member, and a text that is not empty", Section: "§9.6"}
	}
	*s = SecretRef(w)
	return nil
}

func (s SecretRef) summary() summary { return summarize("SecretRef", "ref", s.Ref) }

// Format prints the reference, cut to 32 bytes.
func (s SecretRef) Format(f fmt.State, _ rune) { s.summary().write(f) }

// LogValue logs what Format prints.
func (s SecretRef) LogValue() slog.Value { return s.summary().LogValue() }
